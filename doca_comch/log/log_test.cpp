#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <doca_log.h>

#include "doca_comch/log/sdk_log.hpp"

DOCA_LOG_REGISTER(TEST::LOG)

namespace {

/// Collects what a buffer backend hands over. The handler has no context, hence the static.
std::string collected;
char buffer[512];

void collect(char* record) {
    collected += record;
}

/// Backends live as long as the process: each test silences the ones of those before it.
class DocaLog : public testing::Test {
protected:
    void SetUp() override {
        collected.clear();
        ASSERT_EQ(doca_log_level_set_global_lower_limit(DOCA_LOG_LEVEL_INFO), DOCA_SUCCESS);
        ASSERT_EQ(doca_log_level_set_global_upper_limit(DOCA_LOG_LEVEL_CRIT), DOCA_SUCCESS);
        ASSERT_EQ(doca_log_level_set_global_sdk_limit(DOCA_LOG_LEVEL_INFO), DOCA_SUCCESS);
    }
    void TearDown() override {
        if (backend_ != nullptr) {
            (void)doca_log_backend_set_level_lower_limit(backend_, DOCA_LOG_LEVEL_DISABLE);
            ASSERT_EQ(doca_log_backend_set_level_lower_limit_strict(backend_), DOCA_SUCCESS);
        }
    }
    doca_log_backend* backend() {
        EXPECT_EQ(doca_log_backend_create_with_buf(buffer, sizeof(buffer), collect, &backend_),
                  DOCA_SUCCESS);
        return backend_;
    }
    static bool shown(const char* text) { return collected.find(text) != std::string::npos; }

    doca_log_backend* backend_ = nullptr;
};

TEST_F(DocaLog, RecordNamesTimeProcessLevelSourceAndPlace) {
    backend();
    DOCA_LOG_WARN("number %d", 7);
    EXPECT_TRUE(shown("[DOCA][WRN][TEST::LOG][log_test.cpp:")) << collected;
    EXPECT_TRUE(shown(("[" + std::to_string(::getpid()) + "]").c_str())) << collected;
    EXPECT_TRUE(shown("[TestBody] number 7\n")) << collected;
}

TEST_F(DocaLog, ShowsFromUpperToLowerLimit) {
    doca_log_backend* const it = backend();
    DOCA_LOG_DBG("debug1");
    DOCA_LOG_INFO("info1");
    DOCA_LOG_CRIT("critical1");
    EXPECT_FALSE(shown("debug1"));
    EXPECT_TRUE(shown("info1"));
    EXPECT_TRUE(shown("critical1"));
    EXPECT_EQ(doca_log_backend_set_level_lower_limit(it, DOCA_LOG_LEVEL_DEBUG), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_backend_set_level_upper_limit(it, DOCA_LOG_LEVEL_WARNING), DOCA_SUCCESS);
    DOCA_LOG_DBG("debug2");
    DOCA_LOG_WARN("warning2");
    DOCA_LOG_ERR("error2");
    EXPECT_TRUE(shown("debug2"));
    EXPECT_TRUE(shown("warning2"));
    EXPECT_FALSE(shown("error2"));
    EXPECT_EQ(doca_log_backend_set_level_upper_limit(it, DOCA_LOG_LEVEL_CRIT), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_backend_set_level_lower_limit(it, DOCA_LOG_LEVEL_DISABLE), DOCA_SUCCESS);
    DOCA_LOG_CRIT("critical3");
    EXPECT_FALSE(shown("critical3"));
}

TEST_F(DocaLog, GlobalLimitsHoldForAllAndForThoseToCome) {
    backend();
    EXPECT_EQ(doca_log_level_set_global_lower_limit(DOCA_LOG_LEVEL_DEBUG), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_level_get_global_lower_limit(), DOCA_LOG_LEVEL_DEBUG);
    DOCA_LOG_DBG("before");
    EXPECT_TRUE(shown("before"));
    doca_log_backend* later = nullptr;
    char other[512] = {};
    ASSERT_EQ(doca_log_backend_create_with_buf(
                  other, sizeof(other), [](char*) {}, &later),
              DOCA_SUCCESS);
    DOCA_LOG_DBG("for both");
    EXPECT_NE(std::strstr(other, "for both"), nullptr);
    EXPECT_EQ(doca_log_level_set_global_upper_limit(DOCA_LOG_LEVEL_ERROR), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_level_get_global_upper_limit(), DOCA_LOG_LEVEL_ERROR);
    DOCA_LOG_CRIT("too bad to show");
    EXPECT_FALSE(shown("too bad to show"));
    (void)doca_log_backend_set_level_lower_limit(later, DOCA_LOG_LEVEL_DISABLE);
    (void)doca_log_backend_set_level_lower_limit_strict(later);
}

TEST_F(DocaLog, StrictLimitsAreNotWidened) {
    doca_log_backend* const it = backend();
    EXPECT_EQ(doca_log_backend_set_level_upper_limit(it, DOCA_LOG_LEVEL_ERROR), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_backend_set_level_lower_limit_strict(it), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_backend_set_level_upper_limit_strict(it), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_backend_set_level_lower_limit(it, DOCA_LOG_LEVEL_DEBUG),
              DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_log_backend_set_level_upper_limit(it, DOCA_LOG_LEVEL_CRIT),
              DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_log_level_set_global_lower_limit(DOCA_LOG_LEVEL_DEBUG), DOCA_SUCCESS);
    DOCA_LOG_DBG("debug");
    DOCA_LOG_CRIT("critical");
    DOCA_LOG_INFO("info");
    EXPECT_FALSE(shown("debug"));
    EXPECT_FALSE(shown("critical"));
    EXPECT_TRUE(shown("info"));
    // Showing less is always possible.
    EXPECT_EQ(doca_log_backend_set_level_lower_limit(it, DOCA_LOG_LEVEL_WARNING), DOCA_SUCCESS);
}

TEST_F(DocaLog, ARecordThatDoesNotFitIsDropped) {
    backend();
    DOCA_LOG_INFO("%s", std::string(sizeof(buffer), 'x').c_str());
    EXPECT_TRUE(collected.empty());
    DOCA_LOG_INFO("short");
    EXPECT_TRUE(shown("short"));
}

TEST_F(DocaLog, AHandlerThatLogsIsNotCalledAgain) {
    static int calls;
    calls = 0;
    doca_log_backend* it = nullptr;
    static char own[512];
    ASSERT_EQ(doca_log_backend_create_with_buf(
                  own, sizeof(own),
                  [](char*) {
                      ++calls;
                      DOCA_LOG_INFO("from the handler");
                  },
                  &it),
              DOCA_SUCCESS);
    DOCA_LOG_INFO("once");
    EXPECT_EQ(calls, 1);
    (void)doca_log_backend_set_level_lower_limit(it, DOCA_LOG_LEVEL_DISABLE);
    (void)doca_log_backend_set_level_lower_limit_strict(it);
}

TEST_F(DocaLog, FilesAndDescriptorsAreWritten) {
    FILE* const file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    doca_log_backend* of_file = nullptr;
    doca_log_backend* of_fd = nullptr;
    ASSERT_EQ(doca_log_backend_create_with_file(file, &of_file), DOCA_SUCCESS);
    ASSERT_EQ(doca_log_backend_create_with_fd(::fileno(file), &of_fd), DOCA_SUCCESS);
    DOCA_LOG_INFO("twice");
    for (doca_log_backend* const it : {of_file, of_fd}) {
        ASSERT_EQ(doca_log_backend_set_level_lower_limit(it, DOCA_LOG_LEVEL_DISABLE), DOCA_SUCCESS);
        ASSERT_EQ(doca_log_backend_set_level_lower_limit_strict(it), DOCA_SUCCESS);
    }
    std::rewind(file);
    char text[1024] = {};
    const std::size_t length = std::fread(text, 1, sizeof(text) - 1, file);
    std::string_view all(text, length);
    const std::size_t first = all.find("twice\n");
    ASSERT_NE(first, all.npos);
    EXPECT_NE(all.find("twice\n", first + 1), all.npos);
    std::fclose(file);
}

TEST_F(DocaLog, SyslogCanBeABackend) {
    doca_log_backend* it = nullptr;
    ASSERT_EQ(doca_log_backend_create_with_syslog("comch_test", &it), DOCA_SUCCESS);
    ASSERT_EQ(doca_log_backend_set_level_lower_limit(it, DOCA_LOG_LEVEL_DISABLE), DOCA_SUCCESS);
    ASSERT_EQ(doca_log_backend_set_level_lower_limit_strict(it), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_backend_create_with_syslog_sdk("comch_test", &it), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_backend_set_sdk_level(it, DOCA_LOG_LEVEL_DISABLE), DOCA_SUCCESS);
}

TEST_F(DocaLog, TheStandardBackendPartsStdoutAndStderr) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_EQ(doca_log_backend_create_standard(), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_backend_create_standard(), DOCA_SUCCESS); // nothing twice
    DOCA_LOG_INFO("news");
    DOCA_LOG_WARN("warning");
    DOCA_LOG_DBG("detail");
    EXPECT_EQ(doca_log_level_set_global_lower_limit(DOCA_LOG_LEVEL_DEBUG), DOCA_SUCCESS);
    DOCA_LOG_DBG("more detail");
    EXPECT_EQ(doca_log_level_set_global_lower_limit(DOCA_LOG_LEVEL_ERROR), DOCA_SUCCESS);
    DOCA_LOG_WARN("second warning");
    DOCA_LOG_ERR("error");
    const std::string out = testing::internal::GetCapturedStdout();
    const std::string err = testing::internal::GetCapturedStderr();
    EXPECT_EQ(doca_log_level_set_global_lower_limit(DOCA_LOG_LEVEL_DISABLE), DOCA_SUCCESS);
    EXPECT_NE(out.find("news\n"), out.npos);
    EXPECT_EQ(out.find("news\n", out.find("news\n") + 1), out.npos);
    EXPECT_EQ(out.find("warning"), out.npos);
    EXPECT_EQ(out.find("[] detail"), out.npos);
    EXPECT_NE(out.find("more detail"), out.npos);
    EXPECT_NE(err.find("warning\n"), err.npos);
    EXPECT_EQ(err.find("second warning"), err.npos);
    EXPECT_NE(err.find("error\n"), err.npos);
    EXPECT_EQ(err.find("news"), err.npos);
}

TEST_F(DocaLog, TheLibrarysMessagesHaveBackendsOfTheirOwn) {
    using comch::doca::sdk_log;
    using comch::doca::SdkLevel;
    sdk_log(SdkLevel::critical, "nobody listens");
    doca_log_backend* it = nullptr;
    ASSERT_EQ(doca_log_backend_create_with_buf_sdk(buffer, sizeof(buffer), collect, &it),
              DOCA_SUCCESS);
    sdk_log(SdkLevel::info, "info");
    DOCA_LOG_ERR("the program's");
    EXPECT_TRUE(shown("[DOCA][INF][COMCH] info\n")) << collected;
    EXPECT_FALSE(shown("the program's"));
    EXPECT_EQ(doca_log_backend_set_sdk_level(it, DOCA_LOG_LEVEL_ERROR), DOCA_SUCCESS);
    sdk_log(SdkLevel::warning, "warning");
    EXPECT_FALSE(shown("warning"));
    sdk_log(SdkLevel::error, "error");
    EXPECT_TRUE(shown("error"));
    EXPECT_EQ(doca_log_backend_set_level_lower_limit(it, DOCA_LOG_LEVEL_INFO),
              DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_log_backend_set_sdk_level(backend(), DOCA_LOG_LEVEL_INFO),
              DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_log_level_set_global_sdk_limit(DOCA_LOG_LEVEL_DISABLE), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_level_get_global_sdk_limit(), DOCA_LOG_LEVEL_DISABLE);
    sdk_log(SdkLevel::critical, "silenced");
    EXPECT_FALSE(shown("silenced"));
}

TEST_F(DocaLog, LoggersFormATree) {
    int b = -1;
    int again = -1;
    int c = -1;
    ASSERT_EQ(doca_log_register_source("TREE::B", &b), DOCA_SUCCESS);
    ASSERT_EQ(doca_log_register_source("TREE::B", &again), DOCA_SUCCESS);
    ASSERT_EQ(doca_log_register_source("TREE::B::C", &c), DOCA_SUCCESS);
    EXPECT_EQ(b, again);
    EXPECT_NE(b, c);
    doca_logger** list = nullptr;
    uint32_t count = 0;
    ASSERT_EQ(doca_logger_create_list(nullptr, 1, &list, &count), DOCA_SUCCESS);
    doca_logger* const tree = doca_logger_find_by_name(list, "TREE");
    ASSERT_NE(tree, nullptr);
    EXPECT_EQ(doca_logger_find_by_name(list, "TREE::B"), nullptr); // too deep
    EXPECT_EQ(doca_logger_destroy_list(list), DOCA_SUCCESS);
    ASSERT_EQ(doca_logger_create_list(tree, 0, &list, &count), DOCA_SUCCESS);
    EXPECT_EQ(count, 2u);
    doca_logger* const logger_b = doca_logger_find_by_name(list, "TREE::B");
    doca_logger* const logger_c = doca_logger_find_by_name(list, "TREE::B::C");
    ASSERT_NE(logger_b, nullptr);
    ASSERT_NE(logger_c, nullptr);
    EXPECT_EQ(doca_logger_destroy_list(list), DOCA_SUCCESS);
    char name[DOCA_LOGGER_NAME_SIZE];
    EXPECT_EQ(doca_logger_get_name(logger_c, name), DOCA_SUCCESS);
    EXPECT_STREQ(name, "TREE::B::C");

    backend();
    const auto speak = [](int source, const char* text) {
        return doca_log(DOCA_LOG_LEVEL_INFO, source, "f", 1, "g", "%s", text);
    };
    EXPECT_EQ(doca_logger_set_level(logger_b, DOCA_LOG_LEVEL_ERROR, 0), DOCA_SUCCESS);
    EXPECT_EQ(speak(b, "from b"), DOCA_SUCCESS);
    EXPECT_EQ(speak(c, "from c"), DOCA_SUCCESS);
    EXPECT_FALSE(shown("from b"));
    EXPECT_TRUE(shown("from c"));
    EXPECT_EQ(doca_logger_set_level(tree, DOCA_LOG_LEVEL_ERROR, 1), DOCA_SUCCESS);
    EXPECT_EQ(speak(c, "again from c"), DOCA_SUCCESS);
    EXPECT_FALSE(shown("again from c"));
    int level = 0;
    EXPECT_EQ(doca_logger_get_level(logger_c, &level), DOCA_SUCCESS);
    EXPECT_EQ(level, DOCA_LOG_LEVEL_ERROR);
    EXPECT_EQ(doca_logger_set_level(nullptr, DOCA_LOG_LEVEL_TRACE, 1), DOCA_SUCCESS);
    EXPECT_EQ(speak(c, "third from c"), DOCA_SUCCESS);
    EXPECT_TRUE(shown("third from c"));
}

TEST_F(DocaLog, LongNamesAreCut) {
    int source = -1;
    const std::string name(400, 'n');
    ASSERT_EQ(doca_log_register_source(name.c_str(), &source), DOCA_SUCCESS);
    doca_logger** list = nullptr;
    uint32_t count = 0;
    ASSERT_EQ(doca_logger_create_list(nullptr, 0, &list, &count), DOCA_SUCCESS);
    EXPECT_NE(doca_logger_find_by_name(list, name.substr(0, DOCA_LOGGER_NAME_SIZE - 1).c_str()),
              nullptr);
    EXPECT_EQ(doca_logger_destroy_list(list), DOCA_SUCCESS);
    EXPECT_EQ(doca_log_unregister_source(source), DOCA_SUCCESS);
}

TEST_F(DocaLog, MisuseIsRefused) {
    doca_log_backend* it = nullptr;
    EXPECT_EQ(doca_log_backend_create_with_file(nullptr, &it), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log_backend_create_with_file(stderr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log_backend_create_with_fd(-1, &it), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log_backend_create_with_fd_sdk(1 << 20, &it), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log_backend_create_with_buf(nullptr, 1, collect, &it), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log_backend_create_with_buf(buffer, 0, collect, &it), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log_backend_create_with_buf(buffer, 8, nullptr, &it), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log_backend_create_with_syslog(nullptr, &it), DOCA_ERROR_INVALID_VALUE);
    for (const uint32_t level : {0u, 4u, 45u, 80u}) {
        EXPECT_EQ(doca_log_level_set_global_lower_limit(level), DOCA_ERROR_INVALID_VALUE);
        EXPECT_EQ(doca_log_level_set_global_upper_limit(level), DOCA_ERROR_INVALID_VALUE);
        EXPECT_EQ(doca_log_level_set_global_sdk_limit(level), DOCA_ERROR_INVALID_VALUE);
        EXPECT_EQ(doca_log_backend_set_level_lower_limit(backend(), level),
                  DOCA_ERROR_INVALID_VALUE);
        EXPECT_EQ(doca_log(level, log_source, "f", 1, "g", "text"), DOCA_ERROR_INVALID_VALUE);
    }
    EXPECT_EQ(doca_log_backend_set_level_lower_limit(nullptr, DOCA_LOG_LEVEL_INFO),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log_backend_set_level_upper_limit(nullptr, DOCA_LOG_LEVEL_INFO),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log_backend_set_sdk_level(nullptr, DOCA_LOG_LEVEL_INFO),
              DOCA_ERROR_INVALID_VALUE);
    int source = 0;
    EXPECT_EQ(doca_log_register_source(nullptr, &source), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log_register_source("X", nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log(DOCA_LOG_LEVEL_INFO, -1, "f", 1, "g", "text"), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_log(DOCA_LOG_LEVEL_INFO, 1 << 20, "f", 1, "g", "text"),
              DOCA_ERROR_INVALID_VALUE);
    int not_a_logger = 0;
    auto* const stranger = reinterpret_cast<doca_logger*>(&not_a_logger);
    int level = 0;
    EXPECT_EQ(doca_logger_get_level(stranger, &level), DOCA_ERROR_NOT_FOUND);
    EXPECT_EQ(doca_logger_set_level(stranger, DOCA_LOG_LEVEL_INFO, 0), DOCA_ERROR_NOT_FOUND);
    EXPECT_EQ(doca_logger_set_level(nullptr, DOCA_LOG_LEVEL_INFO, 0), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_logger_destroy_list(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_logger_find_by_name(nullptr, "X"), nullptr);
}

TEST_F(DocaLog, ThreadsMayLogAtOnce) {
    static std::atomic<int> records;
    records = 0;
    static char own[512];
    doca_log_backend* it = nullptr;
    ASSERT_EQ(doca_log_backend_create_with_buf(
                  own, sizeof(own), [](char*) { ++records; }, &it),
              DOCA_SUCCESS);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([] {
            for (int n = 0; n < 100; ++n) {
                DOCA_LOG_INFO("message %d", n);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(records, 400);
    (void)doca_log_backend_set_level_lower_limit(it, DOCA_LOG_LEVEL_DISABLE);
    (void)doca_log_backend_set_level_lower_limit_strict(it);
}

TEST_F(DocaLog, AHandlerMayAskForLevelsAndMakeAnotherBackend) {
    static int records;
    static char own[512];
    static char further[512];
    records = 0;
    doca_log_backend* it = nullptr;
    ASSERT_EQ(doca_log_backend_create_with_buf(
                  own, sizeof(own),
                  [](char*) {
                      (void)doca_log_level_get_global_lower_limit();
                      doca_log_backend* other = nullptr;
                      if (++records == 1) {
                          EXPECT_EQ(doca_log_backend_create_with_buf(
                                        further, sizeof(further), [](char*) {}, &other),
                                    DOCA_SUCCESS);
                      }
                  },
                  &it),
              DOCA_SUCCESS);
    DOCA_LOG_INFO("once");
    EXPECT_EQ(records, 1);
    (void)doca_log_backend_set_level_lower_limit(it, DOCA_LOG_LEVEL_DISABLE);
    (void)doca_log_backend_set_level_lower_limit_strict(it);
}

// The last: there is no way to give a backend back.
TEST_F(DocaLog, ZBackendsAreLimited) {
    doca_log_backend* it = nullptr;
    doca_error_t result = DOCA_SUCCESS;
    uint32_t made = 0;
    while (result == DOCA_SUCCESS && made <= doca_log_get_max_num_backends_sdk()) {
        result = doca_log_backend_create_with_file_sdk(stderr, &it);
        ++made;
    }
    EXPECT_EQ(result, DOCA_ERROR_NO_MEMORY);
    EXPECT_EQ(doca_log_level_set_global_sdk_limit(DOCA_LOG_LEVEL_DISABLE), DOCA_SUCCESS);
}

} // namespace
