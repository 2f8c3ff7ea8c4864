// Commands with flags and commands of their own; flags that are inherited, and that come alone.
#include "doca_comch/argp/test_support.hpp"

namespace {

using namespace comch::doca::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

template <const char* name> doca_error_t take_command(void* config) {
    config_of(config).order.push_back(name);
    return DOCA_SUCCESS;
}
constexpr char get_name[] = "get";
constexpr char set_name[] = "set";

doca_error_t take_word(void* value, void* config) {
    config_of(config).order.push_back(static_cast<char*>(value));
    return DOCA_SUCCESS;
}
doca_error_t take_limit(void* value, void* config) {
    config_of(config).order.push_back("limit " + std::to_string(*static_cast<int*>(value)));
    return DOCA_SUCCESS;
}
doca_error_t take_verbose(void*, void* config) {
    config_of(config).order.push_back("verbose");
    return DOCA_SUCCESS;
}

class DocaArgpCommands : public DocaArgp {
protected:
    static doca_argp_cmd* command(const char* name, doca_argp_cmd_cb_t callback = nullptr) {
        doca_argp_cmd* cmd = nullptr;
        EXPECT_EQ(doca_argp_cmd_create(&cmd), DOCA_SUCCESS);
        doca_argp_cmd_set_name(cmd, name);
        doca_argp_cmd_set_description(cmd, (std::string("Does ") + name).c_str());
        doca_argp_cmd_set_callback(cmd, callback);
        return cmd;
    }
    /// --verbose (inherited), --name; get; set --limit (mandatory) --word; quota set --limit.
    static void add_program() {
        doca_argp_param* const verbose =
            make({"b", "verbose", "Say more", take_verbose, DOCA_ARGP_TYPE_BOOLEAN});
        doca_argp_param_set_inherited(verbose);
        add(verbose);
        add(make({"n", "name", "A name", take_name, DOCA_ARGP_TYPE_STRING}));
        ASSERT_EQ(doca_argp_register_cmd(command("get", take_command<get_name>)), DOCA_SUCCESS);
        doca_argp_cmd* const set = command("set", take_command<set_name>);
        doca_argp_param* const limit =
            make({"n", "limit", "How many", take_limit, DOCA_ARGP_TYPE_INT});
        doca_argp_param_set_mandatory(limit);
        ASSERT_EQ(doca_argp_cmd_register_param(set, limit), DOCA_SUCCESS);
        ASSERT_EQ(doca_argp_cmd_register_param(
                      set, make({"w", "word", "A word", take_word, DOCA_ARGP_TYPE_STRING})),
                  DOCA_SUCCESS);
        ASSERT_EQ(doca_argp_register_cmd(set), DOCA_SUCCESS);
        doca_argp_cmd* const quota = command("quota");
        doca_argp_cmd* const inner = command("set", take_command<set_name>);
        ASSERT_EQ(doca_argp_cmd_register_param(
                      inner, make({"l1", "limit", "How many", take_limit, DOCA_ARGP_TYPE_INT})),
                  DOCA_SUCCESS);
        ASSERT_EQ(doca_argp_cmd_register_cmd(quota, inner), DOCA_SUCCESS);
        ASSERT_EQ(doca_argp_register_cmd(quota), DOCA_SUCCESS);
    }
    std::vector<std::string> order_of(std::vector<std::string> arguments) {
        config_.order.clear();
        EXPECT_EQ(start(std::move(arguments)), DOCA_SUCCESS);
        return config_.order;
    }
};

TEST_F(DocaArgpCommands, AreCalledInFrontOfTheirFlags) {
    add_program();
    EXPECT_THAT(order_of({"get"}), ElementsAre("get"));
    EXPECT_THAT(order_of({"-b", "set", "--word", "get", "-n7"}),
                ElementsAre("verbose", "set", "get", "limit 7"));
    EXPECT_THAT(order_of({"quota", "set", "-l1", "3"}), ElementsAre("set", "limit 3"));
    // None is named: the program sees that itself.
    EXPECT_THAT(order_of({"-n", "get"}), IsEmpty());
    EXPECT_THAT(config_.names, ElementsAre("get"));
    EXPECT_THAT(order_of({"quota"}), IsEmpty());
}

TEST_F(DocaArgpCommands, HaveFlagsOfTheirOwn) {
    add_program();
    EXPECT_EQ(quiet_start({"get", "--limit", "7"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_THAT(said_, HasSubstr("--limit"));
    EXPECT_EQ(quiet_start({"--limit", "7", "set"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(quiet_start({"get", "--name", "x"}), DOCA_ERROR_NOT_SUPPORTED); // not inherited
    EXPECT_EQ(quiet_start({"put"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_THAT(said_, HasSubstr("'put'"));
    EXPECT_EQ(quiet_start({"get", "set", "--limit", "1"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(quiet_start({"set"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_THAT(said_, HasSubstr("--limit is missing"));
    EXPECT_THAT(order_of({"get"}), ElementsAre("get")); // whose flag it is not
}

TEST_F(DocaArgpCommands, InheritFlagsThatSayAreInherited) {
    add_program();
    EXPECT_THAT(order_of({"get", "--verbose"}), ElementsAre("get", "verbose"));
    EXPECT_THAT(order_of({"quota", "-b", "set"}), ElementsAre("verbose", "set"));
    EXPECT_THAT(order_of({"quota", "set", "-b"}), ElementsAre("set", "verbose"));
    EXPECT_EQ(quiet_start({"-b", "get", "-b"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_THAT(said_, HasSubstr("--verbose may come once"));
    // General flags may follow any command.
    EXPECT_EQ(start({"get", "-l", "60"}), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_level_get_global_lower_limit(), DOCA_LOG_LEVEL_DEBUG);
    EXPECT_EXIT(start({"quota", "set", "-h"}), testing::ExitedWithCode(EXIT_SUCCESS), "");
    EXPECT_EXIT(start({"get", "-v"}), testing::ExitedWithCode(EXIT_SUCCESS), "");
}

TEST_F(DocaArgpCommands, AreInTheUsage) {
    add_program();
    doca_argp_cmd* const secret = command("secret");
    doca_argp_cmd_set_hidden(secret);
    ASSERT_EQ(doca_argp_register_cmd(secret), DOCA_SUCCESS);
    const auto usage = [] {
        testing::internal::CaptureStdout();
        doca_argp_usage();
        return testing::internal::GetCapturedStdout();
    };
    const std::string program = usage();
    EXPECT_THAT(program, HasSubstr("Usage: doca_test [DOCA Flags] [Program Flags] [Command]\n"));
    EXPECT_THAT(program, HasSubstr("\nCommands:\n"
                                   "  get                             Does get\n"
                                   "  set                             Does set\n"
                                   "  quota                           Does quota\n"));
    EXPECT_THAT(program, Not(HasSubstr("secret")));
    EXPECT_THAT(program, Not(HasSubstr("--limit")));
    EXPECT_EQ(start({"secret"}), DOCA_SUCCESS); // not shown, but there
    // Behind a command, the usage is the command's.
    EXPECT_EQ(quiet_start({"quota", "set", "--unknown"}), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_THAT(said_, HasSubstr("Usage: doca_test quota set [DOCA Flags] [Program Flags]\n"));
    EXPECT_THAT(said_, HasSubstr("-l1, --limit <integer>"));
    EXPECT_THAT(said_, HasSubstr("-b, --verbose"));
    EXPECT_EQ(usage(), said_.substr(said_.find("Usage")));
}

TEST_F(DocaArgpCommands, TakeTheirFlagsFromJsonToo) {
    add_program();
    const std::string file =
        json(R"({"doca_program_flags": {"limit": 5, "verbose": true, "word": "w"}})");
    config_.order.clear();
    EXPECT_THAT(order_of({"set", "-j", file}), ElementsAre("set", "limit 5", "verbose", "w"));
    EXPECT_THAT(order_of({"-j", file, "set", "--limit", "6"}),
                ElementsAre("set", "limit 6", "verbose", "w"));
    EXPECT_EQ(quiet_start({"-j", file, "get"}), DOCA_ERROR_NOT_SUPPORTED); // has no such flag
}

TEST_F(DocaArgpCommands, AreRegisteredOnceAndWhole) {
    EXPECT_EQ(doca_argp_cmd_create(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_register_cmd(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_cmd_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
    doca_argp_cmd_set_name(nullptr, "x");
    doca_argp_cmd_set_callback(nullptr, nullptr);
    doca_argp_cmd_set_hidden(nullptr);

    doca_argp_cmd* const first = command("first");
    EXPECT_EQ(doca_argp_cmd_register_cmd(first, first), DOCA_ERROR_INVALID_VALUE);
    doca_argp_cmd* const one = command("one");
    EXPECT_EQ(doca_argp_register_cmd(one), DOCA_SUCCESS);
    EXPECT_EQ(doca_argp_register_cmd(one), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_argp_cmd_destroy(one), DOCA_ERROR_BAD_STATE);
    // It is as it was registered.
    EXPECT_EQ(doca_argp_cmd_register_param(
                  one, make({"a", nullptr, "d", take_name, DOCA_ARGP_TYPE_STRING})),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_argp_cmd_register_cmd(one, command("inner")), DOCA_ERROR_BAD_STATE);
    doca_argp_cmd_set_name(one, "changed");
    EXPECT_EQ(start({"one"}), DOCA_SUCCESS);

    EXPECT_EQ(doca_argp_register_cmd(command("one")), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_register_cmd(command("with space")), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_register_cmd(command("")), DOCA_ERROR_INITIALIZATION);
    doca_argp_cmd* const mute = command("mute");
    doca_argp_cmd_set_description(mute, nullptr);
    EXPECT_EQ(doca_argp_register_cmd(mute), DOCA_ERROR_INITIALIZATION);
    EXPECT_EQ(doca_argp_register_cmd(mute), DOCA_ERROR_INVALID_VALUE); // it was ours already

    doca_argp_cmd* const gone = command("gone");
    EXPECT_EQ(doca_argp_cmd_destroy(gone), DOCA_SUCCESS);
    EXPECT_EQ(doca_argp_cmd_destroy(gone), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_cmd_register_param(
                  gone, make({"a", nullptr, "d", take_name, DOCA_ARGP_TYPE_STRING})),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_cmd_register_cmd(gone, command("inner")), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(DocaArgpCommands, CannotHaveANameThatTheyInherit) {
    const auto with_flag = [](const char* name, bool inherited) {
        doca_argp_param* const param = make({nullptr, name, "d", take_name, DOCA_ARGP_TYPE_STRING});
        if (inherited) {
            doca_argp_param_set_inherited(param);
        }
        doca_argp_cmd* const inner = command("inner");
        EXPECT_EQ(doca_argp_cmd_register_param(inner, param), DOCA_SUCCESS);
        doca_argp_cmd* const outer = command((std::string("outer-") + name).c_str());
        EXPECT_EQ(doca_argp_cmd_register_cmd(outer, inner), DOCA_SUCCESS);
        return outer;
    };
    ASSERT_EQ(doca_argp_register_cmd(with_flag("size", false)), DOCA_SUCCESS);
    doca_argp_param* const size = make({nullptr, "size", "d", take_name, DOCA_ARGP_TYPE_STRING});
    doca_argp_param_set_inherited(size);
    EXPECT_EQ(doca_argp_register_param(size), DOCA_ERROR_INVALID_VALUE);
    doca_argp_param* const depth = make({nullptr, "depth", "d", take_name, DOCA_ARGP_TYPE_STRING});
    doca_argp_param_set_inherited(depth);
    EXPECT_EQ(doca_argp_register_param(depth), DOCA_SUCCESS);
    EXPECT_EQ(doca_argp_register_cmd(with_flag("depth", false)), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_argp_cmd_register_param(
                  command("x"), make({nullptr, "json", "d", take_name, DOCA_ARGP_TYPE_STRING})),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(start({"outer-size", "inner", "--size", "s", "--depth", "d"}), DOCA_SUCCESS);
    EXPECT_THAT(config_.names, ElementsAre("s", "d"));
}

TEST_F(DocaArgp, SingularFlagsComeAlone) {
    add_all();
    doca_argp_param* const list =
        make({nullptr, "list", "List devices", take_verbose, DOCA_ARGP_TYPE_BOOLEAN});
    doca_argp_param_set_singular(list);
    add(list);
    ASSERT_EQ(start({"--list", "-l", "60"}), DOCA_SUCCESS); // -p is mandatory, but may not come
    EXPECT_THAT(config_.order, ElementsAre("verbose"));
    config_.order.clear();
    EXPECT_EQ(quiet_start({"-p", "x", "--list"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_THAT(said_, HasSubstr("--list must not come with another flag, but --pci-addr"));
    EXPECT_EQ(quiet_start({"--list", "-j", json(R"({"doca_program_flags": {"count": 1}})")}),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_THAT(config_.order, IsEmpty()); // nothing was done of either
}

} // namespace
