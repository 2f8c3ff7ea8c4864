#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <doca_argp.h>
#include <doca_version.h>

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Config {
    std::string pci;
    int count = 0;
    bool fast = false;
    double ratio = 0;
    std::vector<std::string> names;
    std::vector<std::string> order;
    bool validated = false;
};

Config& config_of(void* config) {
    return *static_cast<Config*>(config);
}

doca_error_t take_pci(void* value, void* config) {
    config_of(config).pci = static_cast<char*>(value);
    config_of(config).order.push_back("pci");
    return DOCA_SUCCESS;
}
doca_error_t take_count(void* value, void* config) {
    config_of(config).count = *static_cast<int*>(value);
    config_of(config).order.push_back("count");
    return *static_cast<int*>(value) < 0 ? DOCA_ERROR_TOO_BIG : DOCA_SUCCESS;
}
doca_error_t take_fast(void* value, void* config) {
    config_of(config).fast = *static_cast<bool*>(value);
    return DOCA_SUCCESS;
}
doca_error_t take_ratio(void* value, void* config) {
    config_of(config).ratio = *static_cast<double*>(value);
    return DOCA_SUCCESS;
}
doca_error_t take_name(void* value, void* config) {
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
        if (!file_.empty()) {
            ::unlink(file_.c_str());
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
        file_ = name;
        std::ofstream(file_) << text;
        return file_;
    }
    /// As start(), but only the code counts; what it prints is kept.
    doca_error_t quiet_start(std::vector<std::string> arguments) {
        testing::internal::CaptureStderr();
        const doca_error_t result = start(std::move(arguments));
        said_ = testing::internal::GetCapturedStderr();
        return result;
    }

    Config config_;
    std::string file_;
    std::string said_;
};

TEST_F(DocaArgp, TakesShortAndLongFlagsOfEachType) {
    add_all();
    ASSERT_EQ(start({"--count", "-7", "-p", "03:00.0"}), DOCA_ERROR_TOO_BIG); // the callback's
    ASSERT_EQ(
        start({"-n", "12", "--pci-addr=03:00.0", "-f", "-rt", "0.5", "--name", "a", "--name", "b"}),
        DOCA_SUCCESS);
    EXPECT_EQ(config_.pci, "03:00.0");
    EXPECT_EQ(config_.count, 12);
    EXPECT_TRUE(config_.fast);
    EXPECT_EQ(config_.ratio, 0.5);
    EXPECT_THAT(config_.names, ElementsAre("a", "b"));
}

TEST_F(DocaArgp, CallsBackInTheOrderOfTheCommandLine) {
    add_all();
    ASSERT_EQ(start({"-n", "1", "-p", "x"}), DOCA_SUCCESS);
    EXPECT_THAT(config_.order, ElementsAre("count", "pci"));
}

TEST_F(DocaArgp, RefusesWhatItDoesNotKnow) {
    add_all();
    EXPECT_EQ(quiet_start({"-p", "x", "--unknown"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_THAT(said_, HasSubstr("--unknown"));
    EXPECT_THAT(said_, HasSubstr("Usage: doca_test [DOCA Flags] [Program Flags]"));
    EXPECT_EQ(quiet_start({"-p", "x", "stray"}), DOCA_ERROR_NOT_SUPPORTED);
}

TEST_F(DocaArgp, RefusesValuesOfTheWrongType) {
    add_all();
    EXPECT_EQ(quiet_start({"-p", "x", "-n", "many"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_THAT(said_, HasSubstr("'many' is not an integer"));
    EXPECT_EQ(quiet_start({"-p", "x", "-n", "99999999999"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(quiet_start({"-p", "x", "--ratio", "half"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(quiet_start({"-p"}), DOCA_ERROR_INVALID_VALUE); // no value at all
    EXPECT_EQ(config_.count, 0);
}

TEST_F(DocaArgp, MandatoryFlagsMustComeAndSingleOnesOnce) {
    add_all();
    EXPECT_EQ(quiet_start({"-n", "1"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_THAT(said_, HasSubstr("--pci-addr is missing"));
    EXPECT_EQ(quiet_start({"-p", "a", "-p", "b"}), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(DocaArgp, SetsTheLogLevels) {
    add_all();
    int level = 0;
    EXPECT_EQ(doca_argp_get_log_level(&level), DOCA_SUCCESS);
    EXPECT_EQ(level, DOCA_LOG_LEVEL_INFO);
    ASSERT_EQ(start({"-p", "x", "-l", "60", "--sdk-log-level", "20"}), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_level_get_global_lower_limit(), DOCA_LOG_LEVEL_DEBUG);
    EXPECT_EQ(doca_log_level_get_global_sdk_limit(), DOCA_LOG_LEVEL_CRIT);
    EXPECT_EQ(doca_argp_get_log_level(&level), DOCA_SUCCESS);
    EXPECT_EQ(level, DOCA_LOG_LEVEL_DEBUG);
    EXPECT_EQ(doca_argp_get_sdk_log_level(&level), DOCA_SUCCESS);
    EXPECT_EQ(level, DOCA_LOG_LEVEL_CRIT);
    EXPECT_EQ(quiet_start({"-p", "x", "-l", "5"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(quiet_start({"-p", "x", "-l", "loud"}), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(DocaArgp, HelpNamesEveryFlagAndEndsTheProcess) {
    add_all();
    doca_argp_param* const secret =
        make({nullptr, "secret", "Not shown", take_name, DOCA_ARGP_TYPE_STRING});
    doca_argp_param_set_hidden(secret);
    add(secret);
    // Of a death test only stderr is seen; usage() prints the same text.
    EXPECT_EXIT(start({"-h"}), testing::ExitedWithCode(EXIT_SUCCESS), "");
    EXPECT_EXIT(start({"--help", "-p", "x"}), testing::ExitedWithCode(EXIT_SUCCESS), "");
    testing::internal::CaptureStdout();
    doca_argp_usage();
    const std::string text = testing::internal::GetCapturedStdout();
    for (const char* const part :
         {"Usage: doca_test [DOCA Flags] [Program Flags]", "DOCA Flags:", "-h, --help",
          "-v, --version", "-l, --log-level", "--sdk-log-level", "-j, --json <path>", "ERROR=30",
          "Program Flags:", "-p, --pci-addr", "PCI address", "-n, --count <number>", "--fast",
          "--ratio", "--name"}) {
        EXPECT_THAT(text, HasSubstr(part));
    }
    EXPECT_THAT(text, Not(HasSubstr("secret")));
}

TEST_F(DocaArgp, VersionIsTheLibrarysOrTheProgramsOwn) {
    EXPECT_EXIT(start({"--version"}), testing::ExitedWithCode(EXIT_SUCCESS), "");
    ASSERT_EQ(doca_argp_register_version_callback([](void*, void* config) {
                  std::fprintf(stderr, "mine %d\n", config_of(config).count);
                  return DOCA_SUCCESS;
              }),
              DOCA_SUCCESS);
    config_.count = 5;
    EXPECT_EXIT(start({"-v"}), testing::ExitedWithCode(EXIT_SUCCESS), "mine 5");
}

TEST_F(DocaArgp, TheProgramValidatesInTheEnd) {
    add_all();
    ASSERT_EQ(doca_argp_register_validation_callback([](void* config) {
                  config_of(config).validated = config_of(config).pci == "good";
                  return config_of(config).validated ? DOCA_SUCCESS : DOCA_ERROR_BAD_CONFIG;
              }),
              DOCA_SUCCESS);
    EXPECT_EQ(start({"-p", "bad"}), DOCA_ERROR_BAD_CONFIG);
    EXPECT_EQ(start({"-p", "good"}), DOCA_SUCCESS);
    EXPECT_TRUE(config_.validated);
}

TEST_F(DocaArgp, ReadsAJsonFile) {
    add_all();
    const std::string file = json(R"({
        // which function
        "doca_general_flags": { "log-level": 40, "sdk-log-level": 30 },
        "doca_program_flags": { "pci-addr": "03:00.0", "count": 9, "fast": true, "ratio": 2,
                                "name": ["x", "y"] }
    })");
    ASSERT_EQ(start({"--json", file, "--count", "3"}), DOCA_SUCCESS);
    EXPECT_EQ(config_.pci, "03:00.0");
    EXPECT_EQ(config_.count, 3); // the command line decides
    EXPECT_TRUE(config_.fast);
    EXPECT_EQ(config_.ratio, 2.0);
    EXPECT_THAT(config_.names, ElementsAre("x", "y"));
    EXPECT_EQ(doca_log_level_get_global_lower_limit(), DOCA_LOG_LEVEL_WARNING);
    EXPECT_EQ(doca_log_level_get_global_sdk_limit(), DOCA_LOG_LEVEL_ERROR);
}

TEST_F(DocaArgp, RefusesJsonItCannotUse) {
    add_all();
    EXPECT_EQ(quiet_start({"-j", "/nonexistent.json"}), DOCA_ERROR_IO_FAILED);
    EXPECT_EQ(quiet_start({"-j", "/proc"}), DOCA_ERROR_IO_FAILED); // no file
    EXPECT_EQ(quiet_start({"-j", json("{ broken")}), DOCA_ERROR_IO_FAILED);
    const auto program = [&](const std::string& flags) {
        return quiet_start({"-j", json(R"({"doca_program_flags":)" + flags + "}")});
    };
    EXPECT_EQ(program(R"({"pci-addr": 3})"), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(program(R"({"pci-addr": "x", "count": "3"})"), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(program(R"({"pci-addr": "x", "count": 99999999999})"), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(program(R"({"pci-addr": "x", "count": [3]})"), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(program(R"({"pci-addr": "x", "fast": 1})"), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(program(R"({"count": 1})"), DOCA_ERROR_INVALID_VALUE); // mandatory one missing
    EXPECT_EQ(program(R"({"pci-addr": "x", "unknown": 1})"), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(quiet_start({"-j", json(R"({"other": {}})"), "-p", "x"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(quiet_start({"-j", json(R"({"doca_general_flags": {"log-level": 7}})"), "-p", "x"}),
              DOCA_ERROR_INVALID_VALUE);
    ASSERT_EQ(doca_argp_disable_pedantic_config_parsing(), DOCA_SUCCESS);
    EXPECT_EQ(program(R"({"pci-addr": "x", "unknown": 1})"), DOCA_SUCCESS);
}

TEST_F(DocaArgp, CliOnlyFlagsAreNotTakenFromJson) {
    doca_argp_param* const param =
        make({nullptr, "name", "A name", take_name, DOCA_ARGP_TYPE_STRING});
    doca_argp_param_set_cli_only(param);
    add(param);
    EXPECT_EQ(quiet_start({"-j", json(R"({"doca_program_flags": {"name": "x"}})")}),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(start({"--name", "x"}), DOCA_SUCCESS);
}

TEST_F(DocaArgp, HandsOverWhatStandsInFrontOfTheDashes) {
    add_all();
    static std::vector<std::string> theirs;
    theirs.clear();
    doca_argp_set_dpdk_program([](int argc, char** argv) {
        theirs.assign(argv, argv + argc);
        return argc == 3 ? DOCA_SUCCESS : DOCA_ERROR_INVALID_VALUE;
    });
    EXPECT_EQ(start({"-l", "0-3", "--", "-p", "x"}), DOCA_SUCCESS);
    EXPECT_THAT(theirs, ElementsAre("doca_test", "-l", "0-3"));
    EXPECT_EQ(config_.pci, "x");
    EXPECT_EQ(quiet_start({"--", "-p", "x"}), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(DocaArgp, RegistrationChecksTheFlag) {
    EXPECT_EQ(
        doca_argp_register_param(make({nullptr, nullptr, "d", take_name, DOCA_ARGP_TYPE_STRING})),
        DOCA_ERROR_INITIALIZATION);
    EXPECT_EQ(doca_argp_register_param(make({"a", nullptr, "", take_name, DOCA_ARGP_TYPE_STRING})),
              DOCA_ERROR_INITIALIZATION);
    EXPECT_EQ(doca_argp_register_param(make({"a", nullptr, "d", nullptr, DOCA_ARGP_TYPE_STRING})),
              DOCA_ERROR_INITIALIZATION);
    EXPECT_EQ(
        doca_argp_register_param(make({"a", nullptr, "d", take_name, DOCA_ARGP_TYPE_UNKNOWN})),
        DOCA_ERROR_INITIALIZATION);
    EXPECT_EQ(doca_argp_register_param(make({"a", nullptr, "d", take_name, DOCA_ARGP_TYPE_DEVICE})),
              DOCA_ERROR_NOT_SUPPORTED);
    for (const char* const name : {"json", "help", "with space", "-dash"}) {
        EXPECT_EQ(
            doca_argp_register_param(make({nullptr, name, "d", take_name, DOCA_ARGP_TYPE_STRING})),
            DOCA_ERROR_INVALID_VALUE)
            << name;
    }
    doca_argp_param* const first = make({"a", "all", "d", take_name, DOCA_ARGP_TYPE_STRING});
    EXPECT_EQ(doca_argp_register_param(first), DOCA_SUCCESS);
    EXPECT_EQ(doca_argp_register_param(first), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_argp_param_destroy(first), DOCA_ERROR_BAD_STATE);
    doca_argp_param_set_long_name(first, "changed"); // too late: nothing happens
    EXPECT_EQ(doca_argp_register_param(make({"a", "b", "d", take_name, DOCA_ARGP_TYPE_STRING})),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(start({"--all", "x"}), DOCA_SUCCESS);
}

TEST_F(DocaArgp, MisuseIsRefused) {
    EXPECT_EQ(doca_argp_init("again", nullptr), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_argp_param_create(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_register_param(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_param_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
    doca_argp_param* const param = make({"a", "all", "d", take_name, DOCA_ARGP_TYPE_STRING});
    EXPECT_EQ(doca_argp_param_destroy(param), DOCA_SUCCESS);
    EXPECT_EQ(doca_argp_param_destroy(param), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_register_param(param), DOCA_ERROR_INVALID_VALUE);
    doca_argp_param_set_short_name(param, "x");
    doca_argp_param_set_short_name(nullptr, "x");
    EXPECT_EQ(doca_argp_register_version_callback(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_register_validation_callback(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_get_log_level(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_get_sdk_log_level(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_start(1, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_destroy(), DOCA_SUCCESS);
    EXPECT_EQ(doca_argp_destroy(), DOCA_ERROR_BAD_STATE);
    doca_argp_param* late = nullptr;
    EXPECT_EQ(doca_argp_param_create(&late), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(start({}), DOCA_ERROR_BAD_STATE);
    doca_argp_usage(); // nothing to say
}

TEST_F(DocaArgp, WithoutANameTheProgramIsCalledAsItWasStarted) {
    ASSERT_EQ(doca_argp_destroy(), DOCA_SUCCESS);
    ASSERT_EQ(doca_argp_init(nullptr, &config_), DOCA_SUCCESS);
    EXPECT_EQ(quiet_start({"--unknown"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_THAT(said_, HasSubstr("Usage: doca_test "));
}

} // namespace
