// What the tests of this folder share.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace comch::test {

/// A fresh directory, removed with everything in it.
class TempDir {
public:
    TempDir() {
        std::string name = (std::filesystem::temp_directory_path() / "comch-test-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr)
            throw std::runtime_error("cannot create " + name);
        path_ = name;
    }
    ~TempDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;

    [[nodiscard]] std::string operator/(const std::string& name) const {
        return (path_ / name).string();
    }

private:
    std::filesystem::path path_;
};

/// Sets variables (or, with nullopt, unsets them) and puts back what was there.
class ScopedEnvironment {
public:
    using Setting = std::pair<std::string, std::optional<std::string>>;

    ScopedEnvironment(std::initializer_list<Setting> settings) {
        for (const auto& [name, value] : settings) {
            const char* const old = std::getenv(name.c_str());
            saved_.emplace_back(name, old ? std::optional<std::string>(old) : std::nullopt);
            apply(name, value);
        }
    }
    ~ScopedEnvironment() {
        for (auto at = saved_.rbegin(); at != saved_.rend(); ++at)
            apply(at->first, at->second);
    }
    ScopedEnvironment(const ScopedEnvironment&) = delete;
    ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

private:
    static void apply(const std::string& name, const std::optional<std::string>& value) {
        if (value)
            setenv(name.c_str(), value->c_str(), 1);
        else
            unsetenv(name.c_str());
    }

    std::vector<Setting> saved_;
};

/// No setting of whoever runs the tests reaches them.
struct CleanEnvironment : ScopedEnvironment {
    CleanEnvironment()
        : ScopedEnvironment({{"COMCH_DOMAIN", {}},
                             {"COMCH_DOMAIN_FILE", {}},
                             {"COMCH_SIDE", {}},
                             {"COMCH_DEVICE", {}}}) {}
};

/// The description of the domain to test in, if it is not the soft device's: the same tests are run
/// over RDMA devices so.
inline std::optional<std::string> test_description() {
    const char* const file = std::getenv("COMCH_TEST_DOMAIN_FILE");
    return file != nullptr ? std::optional<std::string>(file) : std::nullopt;
}

inline void write_file(const std::string& path, const std::string& content) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << content;
    file.close();
    if (!file)
        throw std::runtime_error("cannot write " + path);
}

/// Waits for a child; its exit status, or -1 if a signal ended it.
inline int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace comch::test
