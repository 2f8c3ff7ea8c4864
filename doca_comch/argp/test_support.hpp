// A program with a flag of each type, and a command line for it.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <doca_argp.h>

namespace comch::doca::test {

struct Config {
    std::string pci;
    int count = 0;
    bool fast = false;
    double ratio = 0;
    std::vector<std::string> names;
    std::vector<std::string> order;
    bool validated = false;
};

inline Config& config_of(void* config) {
    return *static_cast<Config*>(config);
}

inline doca_error_t take_pci(void* value, void* config) {
    config_of(config).pci = static_cast<char*>(value);
    config_of(config).order.push_back("pci");
    return DOCA_SUCCESS;
}
inline doca_error_t take_count(void* value, void* config) {
    config_of(config).count = *static_cast<int*>(value);
    config_of(config).order.push_back("count");
    return *static_cast<int*>(value) < 0 ? DOCA_ERROR_TOO_BIG : DOCA_SUCCESS;
}
inline doca_error_t take_fast(void* value, void* config) {
    config_of(config).fast = *static_cast<bool*>(value);
    return DOCA_SUCCESS;
}
inline doca_error_t take_ratio(void* value, void* config) {
    config_of(config).ratio = *static_cast<double*>(value);
    return DOCA_SUCCESS;
}
inline doca_error_t take_name(void* value, void* config) {
    config_of(config).names.emplace_back(static_cast<char*>(value));
    return DOCA_SUCCESS;
}

struct Flag {
    const char* short_name;
    const char* long_name;
    const char* description;
    doca_argp_param_cb_t callback;
    doca_argp_type type;
};

class DocaArgp : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(doca_argp_init("doca_test", &config_), DOCA_SUCCESS);
        (void)doca_log_level_set_global_lower_limit(DOCA_LOG_LEVEL_INFO);
        (void)doca_log_level_set_global_sdk_limit(DOCA_LOG_LEVEL_INFO);
    }
    void TearDown() override {
        (void)doca_argp_destroy();
        for (const std::string& file : files_) {
            ::unlink(file.c_str());
        }
    }

    static doca_argp_param* make(const Flag& flag) {
        doca_argp_param* param = nullptr;
        EXPECT_EQ(doca_argp_param_create(&param), DOCA_SUCCESS);
        doca_argp_param_set_short_name(param, flag.short_name);
        doca_argp_param_set_long_name(param, flag.long_name);
        doca_argp_param_set_description(param, flag.description);
        doca_argp_param_set_callback(param, flag.callback);
        doca_argp_param_set_type(param, flag.type);
        return param;
    }
    static void add(doca_argp_param* param) {
        ASSERT_EQ(doca_argp_register_param(param), DOCA_SUCCESS);
    }
    static void add_all() {
        doca_argp_param* const pci =
            make({"p", "pci-addr", "PCI address", take_pci, DOCA_ARGP_TYPE_STRING});
        doca_argp_param_set_mandatory(pci);
        add(pci);
        doca_argp_param* const count =
            make({"n", "count", "How many", take_count, DOCA_ARGP_TYPE_INT});
        doca_argp_param_set_arguments(count, "<number>");
        add(count);
        add(make({"f", "fast", "Hurry", take_fast, DOCA_ARGP_TYPE_BOOLEAN}));
        add(make({"rt", "ratio", "A ratio", take_ratio, DOCA_ARGP_TYPE_DOUBLE}));
        doca_argp_param* const names =
            make({nullptr, "name", "A name", take_name, DOCA_ARGP_TYPE_STRING});
        doca_argp_param_set_multiplicity(names);
        add(names);
    }
    static doca_error_t start(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), "/usr/bin/doca_test");
        std::vector<char*> pointers;
        for (std::string& each : arguments) {
            pointers.push_back(each.data());
        }
        pointers.push_back(nullptr);
        return doca_argp_start(static_cast<int>(arguments.size()), pointers.data());
    }
    std::string json(const std::string& text) {
        char name[] = "/tmp/doca_argp_test.XXXXXX";
        ::close(::mkstemp(name));
        files_.emplace_back(name);
        std::ofstream(name) << text;
        return name;
    }
    /// As start(), but only the code counts; what it prints is kept.
    doca_error_t quiet_start(std::vector<std::string> arguments) {
        testing::internal::CaptureStderr();
        const doca_error_t result = start(std::move(arguments));
        said_ = testing::internal::GetCapturedStderr();
        return result;
    }

    Config config_;
    std::vector<std::string> files_;
    std::string said_;
};

} // namespace comch::doca::test
