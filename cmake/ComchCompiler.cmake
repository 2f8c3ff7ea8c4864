# How everything is compiled: optimisation, warnings, sanitizers, ccache.
#
#   comch_options    interface target for every target of ours: warnings and sanitizers

include_guard(GLOBAL)

# The copy loops and the ring code are what this project is about: -O3 also with debug information.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -g -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g -DNDEBUG")

find_program(COMCH_CCACHE ccache)
if(COMCH_CCACHE)
    foreach(language IN ITEMS C CXX)
        if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
            set(CMAKE_${language}_COMPILER_LAUNCHER "${COMCH_CCACHE}")
        endif()
    endforeach()
endif()

add_library(comch_options INTERFACE)
target_compile_options(comch_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-align -Wformat=2 -Wundef -Wvla
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi
                              -Wzero-as-null-pointer-constant>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wduplicated-cond -Wlogical-op>
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>)
# gcc 12 sees impossible lengths where std::string and std::vector are inlined (its bugs 105651 and
# 105329); with -Werror they would break the build for nothing.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(comch_options INTERFACE -Wno-restrict -Wno-stringop-overflow
        -Wno-stringop-overread -Wno-array-bounds)
endif()
if(COMCH_WERROR)
    target_compile_options(comch_options INTERFACE -Werror)
endif()

if(COMCH_SANITIZE)
    if(NOT COMCH_SANITIZE MATCHES "^(address|undefined|address,undefined|undefined,address|thread)$")
        message(FATAL_ERROR "COMCH_SANITIZE is '${COMCH_SANITIZE}': "
            "use 'address', 'undefined', 'address,undefined' or 'thread'")
    endif()
    # Undefined behaviour ends the program, so that a test fails instead of printing.
    add_compile_options(-fsanitize=${COMCH_SANITIZE} -fno-sanitize-recover=all
                        -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${COMCH_SANITIZE})
    # Instrumented code at -O3 with all of -g takes twice as long to compile and finds nothing more;
    # -g1 still gives reports with file and line.
    set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
    set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
    if(COMCH_SANITIZE STREQUAL "thread")
        # gcc knows that fences are not modelled; a use of one that matters shows as a report.
        add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
    endif()
endif()
