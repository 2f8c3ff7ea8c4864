# How sources become targets. Sources are found by globbing: several people add files at once, every
# file is named after what it does, and a list in CMake would only repeat the folder. Each build
# looks again (CONFIGURE_DEPENDS), so a new file needs no configure run.
#
# What a file is, its name says:
#   *_test.cpp   GoogleTest tests, beside what they test
#   *_main.cpp   a program of its own
#   other *.cpp  part of the folder's library

include_guard(GLOBAL)

# comch_glob(VARIABLE PATTERN... [EXCLUDE REGEX]): files below the current folder, absolute names.
function(comch_glob variable)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXCLUDE" "")
    list(TRANSFORM arg_UNPARSED_ARGUMENTS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${arg_UNPARSED_ARGUMENTS})
    if(arg_EXCLUDE)
        list(FILTER found EXCLUDE REGEX "${arg_EXCLUDE}")
    endif()
    set(${variable} ${found} PARENT_SCOPE)
endfunction()

# comch_or_placeholder(VARIABLE): a library must have a source; an empty list gets a generated one.
function(comch_or_placeholder variable)
    if(NOT ${variable})
        set(file "${CMAKE_CURRENT_BINARY_DIR}/no_sources_yet.cpp")
        file(CONFIGURE OUTPUT "${file}" CONTENT "// This folder holds no sources.\n")
        set(${variable} "${file}" PARENT_SCOPE)
    endif()
endfunction()

# comch_add_test_program(TARGET SOURCES files... LIBRARIES libraries...): a program of GoogleTest tests, which
# ctest does not know. A test's own code need not be fast, and optimising it takes most of a build; the libraries
# that it tests are optimised as ever.
function(comch_add_test_program target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
    add_executable(${target} ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE comch_options ${arg_LIBRARIES})
    target_compile_options(${target} PRIVATE -O0)
    comch_parse_less(${target} GTEST)
endfunction()

# comch_add_gtests(TARGET LABEL label SOURCES files... LIBRARIES libraries... [TIMEOUT s] [SERIAL]):
# nothing, like the next one, if no tests are built.
function(comch_add_gtests target)
    if(NOT COMCH_WITH_TESTS)
        return()
    endif()
    cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "LABEL;TIMEOUT" "SOURCES;LIBRARIES")
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    comch_add_test_program(${target} SOURCES ${arg_SOURCES}
                           LIBRARIES ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
    set(properties LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
    if(arg_SERIAL)
        list(APPEND properties RUN_SERIAL TRUE)
    endif()
    # The tests find their files by the two folders.
    set(environment "COMCH_BUILD_DIR=${PROJECT_BINARY_DIR}" "COMCH_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
    if(COMCH_SANITIZE AND arg_LABEL STREQUAL "unit")
        comch_add_whole_test(${target} "${environment}" "${arg_SOURCES}")
    else()
        # PRE_TEST: a test program is first run when testing, not as a build step, so a crash in one
        # does not keep the others from being built.
        gtest_discover_tests(${target} TEST_PREFIX "${target}." DISCOVERY_MODE PRE_TEST
            DISCOVERY_TIMEOUT 60 PROPERTIES ${properties} ENVIRONMENT "${environment}")
    endif()
    if(arg_LABEL STREQUAL "unit")
        add_dependencies(comch_unit_tests ${target})
    endif()
endfunction()

# comch_add_whole_test(TARGET ENVIRONMENT SOURCES): all tests of a program in one process. With sanitizers a
# process takes longer to begin and to end than most tests, and one for each test takes twice the time in all; and
# what a test leaves behind meets the next, as it does in no other build.
function(comch_add_whole_test target environment sources)
    if(COMCH_SANITIZE STREQUAL "thread")
        # Where an earlier test has left a thread of the library's a later one may fork all the same.
        list(APPEND environment "TSAN_OPTIONS=die_after_fork=0")
    endif()
    # The longest begin first, or one would be left for one CPU at the end; how long, its text tells roughly.
    set(cost 0)
    foreach(source IN LISTS sources)
        file(SIZE "${source}" size)
        math(EXPR cost "${cost} + ${size}")
    endforeach()
    add_test(NAME ${target} COMMAND ${target})
    set_tests_properties(${target} PROPERTIES LABELS unit TIMEOUT 1200 COST ${cost} ENVIRONMENT "${environment}")
endfunction()

# comch_add_gtests_by_folder(PREFIX LIBRARIES... [EXCEPT FOLDERS...]): one test program for each folder
# with *_test.cpp files below the current one, named PREFIX_<folder>_test, slashes turned to underscores; and
# the target PREFIX_tests, which builds them.
function(comch_add_gtests_by_folder prefix)
    if(NOT COMCH_WITH_TESTS)
        return()
    endif()
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "EXCEPT")
    comch_glob(files "*_test.cpp")
    set(folders "")
    foreach(file IN LISTS files)
        cmake_path(GET file PARENT_PATH folder)
        cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
        string(REPLACE "/" "_" key "${folder}")
        list(APPEND folders "${key}")
        list(APPEND files_${key} "${file}")
    endforeach()
    list(REMOVE_DUPLICATES folders)
    if(arg_EXCEPT)
        list(REMOVE_ITEM folders ${arg_EXCEPT})
    endif()
    set(targets "")
    foreach(key IN LISTS folders)
        if(key STREQUAL ".")
            set(target ${prefix}_test)
        else()
            set(target ${prefix}_${key}_test)
        endif()
        comch_add_gtests(${target} LABEL unit SOURCES ${files_${key}} LIBRARIES ${arg_UNPARSED_ARGUMENTS})
        list(APPEND targets ${target})
    endforeach()
    add_custom_target(${prefix}_tests DEPENDS ${targets})
endfunction()
