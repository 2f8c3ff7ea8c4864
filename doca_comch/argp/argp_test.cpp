#include <doca_version.h>

#include "doca_comch/argp/test_support.hpp"

namespace {

using namespace comch::doca::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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

TEST_F(DocaArgp, BooleanFlagsTakeNoValue) {
    add_all();
    add(make({"q", "quiet", "Say less",
              [](void* value, void* config) {
                  config_of(config).order.push_back(*static_cast<bool*>(value) ? "quiet" : "loud");
                  return DOCA_SUCCESS;
              },
              DOCA_ARGP_TYPE_BOOLEAN}));
    // What follows is a word of its own, and nobody's.
    EXPECT_EQ(quiet_start({"-p", "x", "-f", "false"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(quiet_start({"-p", "x", "--fast", "true"}), DOCA_ERROR_NOT_SUPPORTED);
    for (const char* const word : {"--fast=true", "--fast=", "-f=1"}) {
        EXPECT_EQ(quiet_start({"-p", "x", word}), DOCA_ERROR_INVALID_VALUE) << word;
        EXPECT_THAT(said_, HasSubstr("takes no value"));
    }
    EXPECT_EQ(quiet_start({"-p", "x", "-f", "-f"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(quiet_start({"-p", "x", "-ff"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(quiet_start({"-p", "x", "-fz"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_FALSE(config_.fast);
    ASSERT_EQ(start({"-fqn12", "-p", "x"}), DOCA_SUCCESS); // together, and the last with its value
    EXPECT_TRUE(config_.fast);
    EXPECT_EQ(config_.count, 12);
    EXPECT_THAT(config_.order, ElementsAre("quiet", "count", "pci"));
}

TEST_F(DocaArgp, TakesEveryWordBehindAFlagAsItsValue) {
    add_all();
    ASSERT_EQ(start({"--name", "", "--name=", "--name", "-rt", "--name=-f", "--name", "--fast",
                     "--name", "--", "--name", "[a,b]", "--name", "{}", "--name=a=b", "-px"}),
              DOCA_SUCCESS);
    EXPECT_THAT(config_.names,
                ElementsAre("", "", "-rt", "-f", "--fast", "--", "[a,b]", "{}", "a=b"));
    EXPECT_EQ(config_.pci, "x");
    EXPECT_FALSE(config_.fast);
    ASSERT_EQ(start({"-rt=0.25", "-p", "x"}), DOCA_SUCCESS);
    EXPECT_EQ(config_.ratio, 0.25);
    // One dash for short names, two for long ones.
    EXPECT_EQ(quiet_start({"-p", "x", "--rt", "0.5"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(quiet_start({"--p", "x"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(quiet_start({"-p", "x", "-"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(quiet_start({"-p", "x", "--", "y"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(start({"-p", "x", "--"}), DOCA_SUCCESS); // the end of the flags, and of all
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
    EXPECT_EQ(quiet_start({"-p"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_THAT(said_, HasSubstr("-p needs a value"));
    EXPECT_EQ(quiet_start({"-fp"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(quiet_start({"-p", "x", "--log-level"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_THAT(said_, HasSubstr("--log-level needs a value"));
    EXPECT_EQ(config_.count, 0);
}

TEST_F(DocaArgp, NumbersAreDecimalWholeAndInRange) {
    add_all();
    const auto count_of = [&](const std::string& text) {
        config_.count = -1;
        EXPECT_EQ(start({"-p", "x", "-n", text}), DOCA_SUCCESS) << text;
        return config_.count;
    };
    EXPECT_EQ(count_of("010"), 10); // not octal
    EXPECT_EQ(count_of("08"), 8);
    EXPECT_EQ(count_of("+5"), 5);
    EXPECT_EQ(count_of("2147483647"), 2147483647);
    for (const char* const text : {"", "0x10", "1e3", "5 ", " 5", "5x", "+", "-", "+-5", "1.0"}) {
        EXPECT_EQ(quiet_start({"-p", "x", "-n", text}), DOCA_ERROR_INVALID_VALUE) << text;
        EXPECT_THAT(said_, HasSubstr("--count: '" + std::string(text) + "' is not an integer"));
    }
    for (const char* const text : {"2147483648", "-2147483649", "99999999999999999999"}) {
        const std::string range = std::string("--count: ") + text +
                                  " is out of range: integers are from -2147483648 to 2147483647";
        EXPECT_EQ(quiet_start({"-p", "x", "-n", text}), DOCA_ERROR_INVALID_VALUE);
        EXPECT_THAT(said_, HasSubstr(range));
    }
    const auto in_json = [&](const std::string& flags) {
        return quiet_start({"-p", "x", "-j", json(R"({"doca_program_flags":{)" + flags + "}}")});
    };
    for (const char* const text : {"2147483648", "-2147483649", "99999999999999999999"}) {
        EXPECT_EQ(in_json(R"("count": )" + std::string(text)), DOCA_ERROR_INVALID_VALUE);
        EXPECT_THAT(said_, HasSubstr("--count: "));
        EXPECT_THAT(said_, HasSubstr("integers are from -2147483648 to 2147483647"));
    }
    EXPECT_EQ(in_json(R"("count": "010")"), DOCA_ERROR_INVALID_VALUE); // a string is no number
    EXPECT_EQ(in_json(R"("count": 1.5)"), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(in_json(R"("count": -2147483648)"), DOCA_ERROR_TOO_BIG); // the callback's
    EXPECT_EQ(config_.count, -2147483648);

    for (const char* const text : {"", "half", "0.5x", "0x1p3", "nan", "inf", "1e999", "0,5"}) {
        EXPECT_EQ(quiet_start({"-p", "x", "--ratio", text}), DOCA_ERROR_INVALID_VALUE) << text;
        EXPECT_THAT(said_, HasSubstr("--ratio: '" + std::string(text) + "' is not a number"));
    }
    ASSERT_EQ(start({"-p", "x", "--ratio", "-25e-1"}), DOCA_SUCCESS);
    EXPECT_EQ(config_.ratio, -2.5);
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
    EXPECT_EXIT(start({"-fh", "--unknown"}), testing::ExitedWithCode(EXIT_SUCCESS), "");
    EXPECT_EQ(quiet_start({"--unknown", "-h"}), DOCA_ERROR_NOT_SUPPORTED); // too late for help
    EXPECT_EQ(quiet_start({"--help=all"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(quiet_start({"--=x"}), DOCA_ERROR_NOT_SUPPORTED);
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
    const std::string no = json(R"({"doca_program_flags": {"pci-addr": "x", "fast": false}})");
    ASSERT_EQ(start({"--json", no}), DOCA_SUCCESS);
    EXPECT_FALSE(config_.fast);
    config_.fast = false;
    ASSERT_EQ(start({"-f", "--json", no}), DOCA_SUCCESS);
    EXPECT_TRUE(config_.fast);
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
    EXPECT_EQ(program(R"({"pci-addr": "x", "unknown": 1})"), DOCA_ERROR_NOT_SUPPORTED);
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
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(start({"--name", "x"}), DOCA_SUCCESS);
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
    EXPECT_EQ(
        doca_argp_register_param(make({"a", nullptr, "d", take_name,
                                       static_cast<doca_argp_type>(DOCA_ARGP_TYPE_DOUBLE + 1)})),
        DOCA_ERROR_INITIALIZATION);
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
    char name[] = "doca_test";
    char* holes[] = {name, nullptr, name};
    EXPECT_EQ(doca_argp_start(3, holes), DOCA_ERROR_INVALID_VALUE);
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
