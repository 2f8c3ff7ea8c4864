// What may be done in callbacks, and when each of them is called.
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "doca_comch/argp/test_support.hpp"

namespace {

using namespace comch::doca::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct HandedOver {
    int argc = -1;
    char** argv = nullptr;
};
HandedOver handed_over;

doca_error_t take_theirs(int argc, char** argv) {
    handed_over = {.argc = argc, .argv = argv};
    return argc < 4 ? DOCA_SUCCESS : DOCA_ERROR_TOO_BIG;
}

std::vector<std::string> theirs() {
    return {handed_over.argv, handed_over.argv + handed_over.argc};
}

TEST_F(DocaArgp, HandsOverWhatStandsInFrontOfTheDashes) {
    add_all();
    handed_over = {};
    doca_argp_set_dpdk_program(take_theirs);
    ASSERT_EQ(start({"-l", "0-3", "--", "-p", "x"}), DOCA_SUCCESS);
    // The command line is gone; what was handed over is not, and may be changed.
    EXPECT_THAT(theirs(), ElementsAre("doca_test", "-l", "0-3"));
    EXPECT_EQ(handed_over.argv[handed_over.argc], nullptr);
    std::swap(handed_over.argv[1], handed_over.argv[2]);
    std::strcpy(handed_over.argv[1], "9");
    EXPECT_THAT(theirs(), ElementsAre("doca_test", "9", "-l"));
    EXPECT_EQ(config_.pci, "x");
    EXPECT_EQ(quiet_start({"a", "b", "c", "--", "-p", "x"}), DOCA_ERROR_TOO_BIG);
    testing::internal::CaptureStdout();
    doca_argp_usage();
    EXPECT_THAT(testing::internal::GetCapturedStdout(),
                HasSubstr("Usage: doca_test [DPDK Flags] -- [DOCA Flags] [Program Flags]"));
    // None of theirs: they are told so, whether there are dashes or not.
    ASSERT_EQ(start({"--", "-p", "y"}), DOCA_SUCCESS);
    EXPECT_THAT(theirs(), ElementsAre("doca_test"));
    handed_over = {};
    ASSERT_EQ(start({"-p", "z"}), DOCA_SUCCESS);
    EXPECT_THAT(theirs(), ElementsAre("doca_test"));
}

TEST_F(DocaArgp, HandsOverAfterAllElse) {
    add_all();
    static Config* config;
    config = &config_;
    ASSERT_EQ(doca_argp_register_validation_callback([](void*) {
                  config->order.push_back("validation");
                  return DOCA_SUCCESS;
              }),
              DOCA_SUCCESS);
    doca_argp_set_dpdk_program([](int, char**) {
        config->order.push_back("theirs");
        return DOCA_SUCCESS;
    });
    ASSERT_EQ(start({"--file-prefix", "a", "--", "-p", "x", "-n", "1"}), DOCA_SUCCESS);
    EXPECT_THAT(config_.order, ElementsAre("pci", "count", "validation", "theirs"));
    config_.order.clear();
    EXPECT_EQ(quiet_start({"--file-prefix", "a", "--", "-n", "1"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_THAT(config_.order, ElementsAre("count")); // -p is missing: the rest does not come
}

TEST_F(DocaArgp, HandsOverWhatTheJsonFileSays) {
    add_all();
    handed_over = {};
    const auto with = [&](const std::string& section) {
        return json(R"({"doca_dpdk_flags": )" + section + "}");
    };
    const std::string file = with(R"({"devices": [{"device": "pf", "id": "03:00.0", "hws": true},
        {"device": "sf", "id": "4", "sft": false}], "core-list": "0-3", "core-mask": 15,
        "flags": " --file-prefix  x "})");
    // To a program without such a part, it says nothing.
    EXPECT_EQ(quiet_start({"-p", "x", "-j", file}), DOCA_ERROR_INVALID_VALUE);
    doca_argp_set_dpdk_program([](int argc, char** argv) {
        handed_over = {.argc = argc, .argv = argv};
        return DOCA_SUCCESS;
    });
    ASSERT_EQ(start({"-p", "x", "-j", file}), DOCA_SUCCESS);
    std::vector<std::string> all = theirs();
    EXPECT_THAT(all, testing::UnorderedElementsAre("doca_test", "-a", "03:00.0,dv_flow_en=2", "-a",
                                                   "auxiliary:mlx5_core.sf.4,sft_en=0", "-l", "0-3",
                                                   "-c", "0xf", "--file-prefix", "x"));
    EXPECT_EQ(all.front(), "doca_test");
    ASSERT_EQ(start({"-l", "7", "--", "-p", "x", "-j", file}), DOCA_SUCCESS);
    EXPECT_THAT(theirs(), ElementsAre("doca_test", "-l", "7")); // the command line decides
    for (const char* const section :
         {R"({"flags": 3})", R"({"core-mask": -1})", R"({"devices": [{"device": "pf"}]})",
          R"({"devices": ["03:00.0"]})", R"({"devices": [{"device": "pf", "id": "x", "hws": 1}]})",
          "3"}) {
        EXPECT_EQ(quiet_start({"-p", "x", "-j", with(section)}), DOCA_ERROR_INVALID_VALUE)
            << section;
    }
    EXPECT_EQ(quiet_start({"-p", "x", "-j", with(R"({"cores": 3})")}), DOCA_ERROR_NOT_SUPPORTED);
}

/// What a callback does, and what it was answered.
struct Inside {
    std::vector<doca_error_t> answers;
    doca_argp_param* param = nullptr;
};
Inside inside;

doca_error_t do_what_is_too_late(void*, void*) {
    static char name[] = "again";
    char* arguments[] = {name, nullptr};
    doca_argp_cmd* command = nullptr;
    const bool created = doca_argp_cmd_create(&command) == DOCA_SUCCESS;
    doca_argp_set_dpdk_program(take_theirs); // without an answer; nothing happens
    doca_argp_usage();
    inside.answers = {
        doca_argp_init("again", nullptr),
        doca_argp_start(1, arguments),
        doca_argp_register_param(inside.param),
        doca_argp_register_cmd(command),
        doca_argp_cmd_register_param(command, inside.param),
        doca_argp_cmd_register_cmd(command, command),
        doca_argp_register_version_callback([](void*, void*) { return DOCA_SUCCESS; }),
        doca_argp_register_validation_callback([](void*) { return DOCA_SUCCESS; }),
        doca_argp_register_logger_callback(
            [](doca_log_level, const char*, va_list) { return DOCA_SUCCESS; }),
        doca_argp_register_dev_open_callback(
            [](doca_devinfo*, void*, doca_dev**) { return DOCA_SUCCESS; }, nullptr),
    };
    return created ? DOCA_SUCCESS : DOCA_ERROR_UNEXPECTED;
}

TEST_F(DocaArgp, NothingIsRegisteredOrStartedInCallbacks) {
    inside = {};
    handed_over = {};
    inside.param = make({"a", nullptr, "d", take_name, DOCA_ARGP_TYPE_STRING});
    add(make({"x", nullptr, "d", do_what_is_too_late, DOCA_ARGP_TYPE_BOOLEAN}));
    testing::internal::CaptureStdout();
    ASSERT_EQ(start({"-x"}), DOCA_SUCCESS);
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("Usage: doca_test"));
    EXPECT_THAT(inside.answers, testing::SizeIs(10));
    EXPECT_THAT(inside.answers, testing::Each(DOCA_ERROR_BAD_STATE));
    EXPECT_EQ(handed_over.argc, -1);
    // Now it is not too late: the parser runs no more, and the flag is the program's still.
    EXPECT_EQ(doca_argp_register_param(inside.param), DOCA_SUCCESS);
    EXPECT_EQ(start({"-a", "x"}), DOCA_SUCCESS);
}

doca_error_t destroy_parser(void* value, void* config) {
    EXPECT_EQ(doca_argp_destroy(), DOCA_SUCCESS);
    EXPECT_EQ(doca_argp_destroy(), DOCA_ERROR_BAD_STATE);
    config_of(config).names.emplace_back(static_cast<char*>(value)); // valid still
    return config_of(config).names.back() == "refuse" ? DOCA_ERROR_TOO_BIG : DOCA_SUCCESS;
}

TEST_F(DocaArgp, DestroyInAFlagsCallbackEndsTheStart) {
    for (const char* const word : {"a text that is no short string", "refuse"}) {
        config_ = {};
        (void)doca_argp_destroy();
        ASSERT_EQ(doca_argp_init("doca_test", &config_), DOCA_SUCCESS);
        add_all();
        add(make({nullptr, "end", "The end", destroy_parser, DOCA_ARGP_TYPE_STRING}));
        EXPECT_EQ(quiet_start({"-p", "x", "--end", word, "-n", "1"}),
                  std::string(word) == "refuse" ? DOCA_ERROR_TOO_BIG : DOCA_ERROR_BAD_STATE);
        EXPECT_THAT(config_.names, ElementsAre(word));
        EXPECT_THAT(config_.order, ElementsAre("pci")); // no further callback
        EXPECT_EQ(said_, "");                           // there is no usage any more
        EXPECT_EQ(start({}), DOCA_ERROR_BAD_STATE);
    }
    // The same from a JSON file.
    ASSERT_EQ(doca_argp_init("doca_test", &config_), DOCA_SUCCESS);
    doca_argp_param* const param =
        make({nullptr, "end", "The end", destroy_parser, DOCA_ARGP_TYPE_STRING});
    doca_argp_param_set_multiplicity(param);
    add(param);
    EXPECT_EQ(quiet_start({"-j", json(R"({"doca_program_flags": {"end": ["a", "b"]}})")}),
              DOCA_ERROR_BAD_STATE);
    EXPECT_THAT(config_.names, ElementsAre("refuse", "a"));
}

TEST_F(DocaArgp, DestroyInTheOtherCallbacksEndsTheStart) {
    const auto again = [&] {
        (void)doca_argp_destroy();
        ASSERT_EQ(doca_argp_init("doca_test", &config_), DOCA_SUCCESS);
        add_all();
    };
    const auto destroy = [](void*) { return doca_argp_destroy(); };
    again();
    ASSERT_EQ(doca_argp_register_validation_callback(destroy), DOCA_SUCCESS);
    EXPECT_EQ(start({"-p", "x"}), DOCA_ERROR_BAD_STATE);
    again();
    doca_argp_set_dpdk_program([](int argc, char** argv) {
        const doca_error_t result = doca_argp_destroy();
        EXPECT_STREQ(argv[argc - 1], "a"); // until the end of the callback
        return result;
    });
    EXPECT_EQ(start({"a", "--", "-p", "x"}), DOCA_ERROR_BAD_STATE);
    again();
    doca_argp_cmd* command = nullptr;
    ASSERT_EQ(doca_argp_cmd_create(&command), DOCA_SUCCESS);
    doca_argp_cmd_set_name(command, "end");
    doca_argp_cmd_set_description(command, "The end");
    doca_argp_cmd_set_callback(command, destroy);
    ASSERT_EQ(doca_argp_register_cmd(command), DOCA_SUCCESS);
    EXPECT_EQ(start({"-p", "x", "end"}), DOCA_ERROR_BAD_STATE);
    again();
    ASSERT_EQ(doca_argp_register_logger_callback(
                  [](doca_log_level, const char*, va_list) { return doca_argp_destroy(); }),
              DOCA_SUCCESS);
    EXPECT_EQ(quiet_start({"--unknown"}), DOCA_ERROR_NOT_SUPPORTED);
    // A new one may take its place at once: they are not mixed up.
    again();
    add(make({nullptr, "renew", "d",
              [](void*, void* config) {
                  EXPECT_EQ(doca_argp_destroy(), DOCA_SUCCESS);
                  return doca_argp_init("second", config);
              },
              DOCA_ARGP_TYPE_BOOLEAN}));
    EXPECT_EQ(start({"--renew", "-p", "x"}), DOCA_ERROR_BAD_STATE);
    testing::internal::CaptureStdout();
    doca_argp_usage();
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("Usage: second "));
}

std::string logged;

doca_error_t keep_logged(doca_log_level level, const char* format, va_list arguments) {
    char text[256];
    (void)std::vsnprintf(text, sizeof(text), format, arguments);
    logged = std::to_string(level) + " " + text;
    return DOCA_ERROR_IO_FAILED; // does not matter
}

TEST_F(DocaArgp, ALoggerCallbackIsToldInsteadOfStderr) {
    add_all();
    EXPECT_EQ(doca_argp_disable_logger_callback(), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_argp_register_logger_callback(nullptr), DOCA_ERROR_INVALID_VALUE);
    ASSERT_EQ(doca_argp_register_logger_callback(keep_logged), DOCA_SUCCESS);
    EXPECT_EQ(doca_argp_register_logger_callback(keep_logged), DOCA_ERROR_ALREADY_EXIST);
    EXPECT_EQ(quiet_start({"-p", "x", "-n", "100%s"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(logged, "30 --count: '100%s' is not an integer");
    EXPECT_THAT(said_, Not(HasSubstr("is not an integer")));
    EXPECT_THAT(said_, HasSubstr("Usage: doca_test"));
    ASSERT_EQ(doca_argp_disable_logger_callback(), DOCA_SUCCESS);
    logged.clear();
    EXPECT_EQ(quiet_start({"-p", "x", "-n", "many"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_THAT(said_, HasSubstr("is not an integer"));
    EXPECT_EQ(logged, "");
    EXPECT_EQ(doca_argp_disable_logger_callback(), DOCA_ERROR_BAD_STATE);
}

} // namespace
