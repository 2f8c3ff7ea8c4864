// A process without descriptors, for tests.
#pragma once

#include <stdexcept>

#include <sys/resource.h>
#include <unistd.h>

#include "core/base/unique_fd.hpp"

namespace comch::test {

/// As many descriptors as there are now, and no more.
class NoDescriptorLeft {
public:
    NoDescriptorLeft() {
        if (::getrlimit(RLIMIT_NOFILE, &before_) != 0) {
            throw std::runtime_error("no limit");
        }
        const UniqueFd next(::dup(STDERR_FILENO)); // the lowest that is free
        rlimit now = before_;
        now.rlim_cur = static_cast<rlim_t>(next.get());
        (void)::setrlimit(RLIMIT_NOFILE, &now);
    }
    ~NoDescriptorLeft() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }
    NoDescriptorLeft(const NoDescriptorLeft&) = delete;
    NoDescriptorLeft& operator=(const NoDescriptorLeft&) = delete;

private:
    rlimit before_{};
};

} // namespace comch::test
