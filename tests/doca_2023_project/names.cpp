// The same headers, from C++.
#include <doca_argp.h>
#include <doca_comm_channel.h>
#include <doca_dev.h>
#include <doca_error.h>
#include <doca_log.h>

DOCA_LOG_REGISTER(OLD_PROGRAM::NAMES);

extern "C" void say_which(const char* side) {
    DOCA_LOG_INFO("Built for the %s", side);
}
