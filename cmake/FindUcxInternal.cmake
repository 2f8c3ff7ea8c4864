# UCX with its internal headers, which no binary package holds.
#
#   Ucx::internal   include paths for <uct/base/...>, <ucs/...> and UCX's own "config.h", and the
#                   libraries ucp, uct and ucs
#
# scripts/fetch-ucx-headers.sh brings the headers of exactly the installed version, once.
#
#   COMCH_UCX_CACHE    where they are kept; by default in the build folder. Give a folder outside
#                      of it (or the environment variable of the same name) to share it.
#   COMCH_UCX_SOURCE   a source tree of another build or patch level of UCX 1.13 (comch supports no other
#                      version) to build against instead; its libraries are found by PKG_CONFIG_PATH, and
#                      COMCH_UCX_INFO is its ucx_info.

find_package(PkgConfig REQUIRED)
pkg_check_modules(UCX REQUIRED IMPORTED_TARGET ucx ucx-uct ucx-ucs)

if(DEFINED ENV{COMCH_UCX_CACHE})
    set(default_cache "$ENV{COMCH_UCX_CACHE}")
else()
    set(default_cache "${PROJECT_BINARY_DIR}/ucx-src")
endif()
set(COMCH_UCX_CACHE "${default_cache}" CACHE PATH "Where UCX's internal headers are kept")
set(COMCH_UCX_SOURCE "" CACHE PATH "A UCX 1.13 source tree to build against, instead of the installed UCX's")
find_program(COMCH_UCX_INFO ucx_info DOC "ucx_info of the UCX to build against")
if(NOT COMCH_UCX_INFO)
    set(COMCH_UCX_INFO ucx_info)
endif()

set(command "${PROJECT_SOURCE_DIR}/scripts/fetch-ucx-headers.sh"
    --cache "${COMCH_UCX_CACHE}" --ucx-info "${COMCH_UCX_INFO}")
if(COMCH_UCX_SOURCE)
    list(APPEND command --source "${COMCH_UCX_SOURCE}")
endif()
execute_process(COMMAND bash ${command}
    OUTPUT_VARIABLE UcxInternal_TREE OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
if(NOT result EQUAL 0)
    message(FATAL_ERROR "UCX's internal headers could not be had (see above). "
        "COMCH_UCX_SOURCE=<tree> uses a source tree that is here, COMCH_WITH_UCX=OFF goes without.")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(UcxInternal REQUIRED_VARS UcxInternal_TREE UCX_FOUND
                                  VERSION_VAR UCX_ucx_VERSION)

if(NOT TARGET Ucx::internal)
    add_library(Ucx::internal INTERFACE IMPORTED)
    # Ahead of the system's include path, so that public and internal headers are of one tree.
    target_include_directories(Ucx::internal SYSTEM INTERFACE
        "${UcxInternal_TREE}/src" "${UcxInternal_TREE}")
    # UCX's headers look for config.h only if told that there is one.
    target_compile_definitions(Ucx::internal INTERFACE HAVE_CONFIG_H=1)
    target_link_libraries(Ucx::internal INTERFACE PkgConfig::UCX)
endif()
