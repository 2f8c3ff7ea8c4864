// Names and meanings of the codes.
#include <array>
#include <cstddef>

#include <doca_error.h>

namespace {

struct Text {
    const char* name;
    const char* description;
};

constexpr std::array<Text, DOCA_ERROR_DEVICE_FATAL_ERROR + 1> texts{{
    {"DOCA_SUCCESS", "Success"},
    {"DOCA_ERROR_UNKNOWN", "Unknown error"},
    {"DOCA_ERROR_NOT_PERMITTED", "Operation not permitted"},
    {"DOCA_ERROR_IN_USE", "Object is in use"},
    {"DOCA_ERROR_NOT_SUPPORTED", "Operation not supported"},
    {"DOCA_ERROR_AGAIN", "Temporarily not possible, try again"},
    {"DOCA_ERROR_INVALID_VALUE", "Invalid value"},
    {"DOCA_ERROR_NO_MEMORY", "Out of memory"},
    {"DOCA_ERROR_INITIALIZATION", "Initialization failed"},
    {"DOCA_ERROR_TIME_OUT", "Timed out"},
    {"DOCA_ERROR_SHUTDOWN", "Shutting down or shut down"},
    {"DOCA_ERROR_CONNECTION_RESET", "Connection reset by the peer"},
    {"DOCA_ERROR_CONNECTION_ABORTED", "Connection aborted"},
    {"DOCA_ERROR_CONNECTION_INPROGRESS", "Connection in progress"},
    {"DOCA_ERROR_NOT_CONNECTED", "Not connected"},
    {"DOCA_ERROR_NO_LOCK", "Lock not available"},
    {"DOCA_ERROR_NOT_FOUND", "Not found"},
    {"DOCA_ERROR_IO_FAILED", "Input or output failed"},
    {"DOCA_ERROR_BAD_STATE", "Not allowed in this state"},
    {"DOCA_ERROR_UNSUPPORTED_VERSION", "Version not supported"},
    {"DOCA_ERROR_OPERATING_SYSTEM", "Operating system call failed"},
    {"DOCA_ERROR_DRIVER", "Driver call failed"},
    {"DOCA_ERROR_UNEXPECTED", "Unexpected condition"},
    {"DOCA_ERROR_ALREADY_EXIST", "Exists already"},
    {"DOCA_ERROR_FULL", "No room left"},
    {"DOCA_ERROR_EMPTY", "Nothing there"},
    {"DOCA_ERROR_IN_PROGRESS", "Operation in progress"},
    {"DOCA_ERROR_TOO_BIG", "Too big"},
    {"DOCA_ERROR_AUTHENTICATION", "Authentication failed"},
    {"DOCA_ERROR_BAD_CONFIG", "Bad configuration"},
    {"DOCA_ERROR_SKIPPED", "Skipped"},
    {"DOCA_ERROR_DEVICE_FATAL_ERROR", "Fatal error of the device"},
}};

constexpr Text unknown{"DOCA_ERROR_UNKNOWN", "Not a code of this interface"};

const Text& text_of(doca_error_t error) {
    const auto index = static_cast<std::size_t>(error);
    return index < texts.size() ? texts[index] : unknown;
}

} // namespace

const char* doca_error_get_name(doca_error_t error) {
    return text_of(error).name;
}

const char* doca_error_get_descr(doca_error_t error) {
    return text_of(error).description;
}
