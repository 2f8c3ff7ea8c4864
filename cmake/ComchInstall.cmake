# What `cmake --install` puts where, below the prefix. It may be moved afterwards as a whole.
#
#   bin/                  the comch_* programs
#   <lib>/ucx/            the UCX transport, to be preloaded
#   <lib>/libfabric/      the libfabric provider, for FI_PROVIDER_PATH
#   <lib>/comch/doca/     the prefix that programs written for DOCA are pointed at; doca-dpu/ beside it
#   include/comch/, <lib>/libcomch_core.a, <lib>/pkgconfig/comch.pc, <lib>/cmake/comch/
#                         for programs on the core: pkg-config's comch, CMake's comch::comch
#   share/comch/          the ready files of config/
#   share/doc/comch/      README.md, the licence, docs/, examples/, and a link to the files of config/: as in the
#                         sources, so that they find each other

include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

foreach(name IN ITEMS info stat perftest limits scaling fi_perftest doca_perf)
    if(TARGET comch_${name})
        install(TARGETS comch_${name} DESTINATION "${CMAKE_INSTALL_BINDIR}")
    endif()
endforeach()
if(TARGET uct_comch)
    install(TARGETS uct_comch DESTINATION "${CMAKE_INSTALL_LIBDIR}/ucx")
endif()
if(TARGET ofi_comch)
    install(TARGETS ofi_comch DESTINATION "${CMAKE_INSTALL_LIBDIR}/libfabric")
endif()

set(faces "${CMAKE_INSTALL_LIBDIR}/comch")
install(TARGETS doca_common DESTINATION "${faces}/doca/lib")
# The names that lead to it, and what is there of text. (Without the library's own files and links: as
# they are in the build, they look for libraries in the build.)
install(DIRECTORY "${PROJECT_BINARY_DIR}/doca" "${PROJECT_BINARY_DIR}/doca-dpu" DESTINATION "${faces}"
        REGEX "/doca/lib/libdoca_common\\.so" EXCLUDE)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/core/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS comch_core DESTINATION "${CMAKE_INSTALL_LIBDIR}")
file(RELATIVE_PATH COMCH_PC_TO_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/comch.pc.in" "${PROJECT_BINARY_DIR}/package/comch.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/package/comch.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/comchConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/package/comchConfig.cmake"
    INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/comch"
    PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/comchConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/comchConfig.cmake"
              "${PROJECT_BINARY_DIR}/package/comchConfigVersion.cmake"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/comch")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/config/" DESTINATION "${CMAKE_INSTALL_DATADIR}/comch")
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/LICENSE"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" "${PROJECT_SOURCE_DIR}/examples"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
file(RELATIVE_PATH to_config "/${CMAKE_INSTALL_DOCDIR}" "/${CMAKE_INSTALL_DATADIR}/comch")
file(CREATE_LINK "${to_config}" "${PROJECT_BINARY_DIR}/package/config" SYMBOLIC)
install(FILES "${PROJECT_BINARY_DIR}/package/config" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
