// How a test program says that something is wrong: one sentence, then the whole job ends.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace mpi_tests {

/// The program's name, for messages; set once by Session.
inline std::string program_name = "?";

/// Prints the failure with this rank's number and aborts the job with exit code 1. A test that has
/// seen one wrong byte cannot tell anything by going on, and the other ranks may wait for it.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
    int initialized = 0;
    MPI_Initialized(&initialized);
    int rank = -1;
    int size = -1;
    if (initialized != 0) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
    }
    const std::string text = fmt::format(format, std::forward<Args>(args)...);
    // One write per line: the lines of several ranks must not mix.
    const std::string line =
        fmt::format("FAIL {} [rank {} of {}]: {}\n", program_name, rank, size, text);
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
    if (initialized != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    std::exit(1);
}

template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
    if (!condition) [[unlikely]] {
        fail(format, std::forward<Args>(args)...);
    }
}

/// The text of an MPI return code.
inline std::string mpi_error(int code) {
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    return std::string(text, static_cast<std::size_t>(length));
}

/// The class of an MPI return code (MPI_ERR_TRUNCATE, ...).
inline int mpi_error_class(int code) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    return error_class;
}

} // namespace mpi_tests
