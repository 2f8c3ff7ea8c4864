# Every library that comch uses, the oldest version it is known to work with (Debian 12's), and why
# it is used instead of code of our own.

include_guard(GLOBAL)

find_package(Threads REQUIRED)            # producers and consumers live on threads of their own
find_package(PkgConfig REQUIRED)          # for libraries that ship no CMake package

find_package(fmt 9 REQUIRED)              # error sentences and tables; C++20's <format> needs gcc 13
find_package(tl-expected 1.0 REQUIRED)    # Result<T>; std::expected is C++23
find_package(nlohmann_json 3.11 REQUIRED) # machine-readable output of the tools
find_package(CLI11 2.1 REQUIRED)          # command lines of the tools and of perftest
find_package(spdlog 1.10 REQUIRED)        # sinks and formats behind doca_log.h
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash>=0.8) # stable hashes of names
pkg_check_modules(RDMA REQUIRED IMPORTED_TARGET libibverbs>=1.14 librdmacm>=1.3) # RDMA devices
if(COMCH_WITH_TESTS)
    find_package(GTest 1.12 REQUIRED)     # unit tests, with GoogleMock
    include(GoogleTest)
endif()

# The configuration file is TOML. toml11's package file asks for the very version it was built as
# (same minor version), so 3.7 accepts 3.7.x.
find_package(toml11 3.7 REQUIRED)
