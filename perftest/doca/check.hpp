// Calls of the DOCA API that must not fail here.
#pragma once

#include <stdexcept>
#include <string>

#include <doca_error.h>

namespace comch::perftest {

/// SUCCESS and `also` are fine.
inline void must(doca_error_t result, const char* what, doca_error_t also = DOCA_SUCCESS) {
    if (result != DOCA_SUCCESS && result != also) {
        throw std::runtime_error(std::string(what) + ": " + doca_error_get_descr(result));
    }
}

} // namespace comch::perftest
