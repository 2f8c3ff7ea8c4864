// Registers the component and its transport when the library is loaded.
#include "guarded.hpp"
#include "iface.hpp"
#include "md.hpp"
#include "ucx_compat.hpp"

namespace comch::uct {
namespace {

ucs_status_t no_rkey_ptr(uct_component_t*, uct_rkey_t, void*, std::uint64_t, void**) {
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t no_cm(uct_component_t*, uct_worker_h, const uct_cm_config_t*, uct_cm_h*) {
    return UCS_ERR_UNSUPPORTED;
}

void no_vfs(uct_md_h) {}

uct_component_t component = {
    "comch",
    guarded<query_md_resources>,
    guarded<open_md>,
    no_cm,
    guarded<unpack_rkey>,
    no_rkey_ptr,
    release_rkey,
    {"comch memory domain", "COMCH_", md_config_table, sizeof(MdConfig), {nullptr, nullptr}},
    {"", "", nullptr, 0, {nullptr, nullptr}}, // no connection manager
    UCT_COMPONENT_TL_LIST_INITIALIZER(&component),
    {},
    0,
    no_vfs,
};

uct_tl_t transport = {
    "comch",
    guarded<query_devices>,
    guarded<open_iface>,
    {"comch transport", "COMCH_", iface_config_table, sizeof(IfaceConfig), {nullptr, nullptr}},
    {},
};

bool registered = false;

/// Internal structures of UCX changed between versions: better no transport than a crash.
bool is_the_ucx_we_were_built_for() {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    ucp_get_version(&major, &minor, &release);
    if (major == built_major && minor == built_minor) {
        return true;
    }
    ucs_warn("comch: libuct_comch.so was built for UCX %u.%u and this is UCX %u.%u.%u; the "
             "transport is not offered; comch supports UCX 1.13 only: run with 1.13",
             built_major, built_minor, major, minor, release);
    return false;
}

[[gnu::constructor]] void register_component() {
    if (!is_the_ucx_we_were_built_for()) {
        return;
    }
    uct_component_register(&component);
    uct_tl_register(&component, &transport);
    registered = true;
}

[[gnu::destructor]] void unregister_component() {
    if (registered) {
        uct_tl_unregister(&transport);
        uct_component_unregister(&component);
    }
}

} // namespace
} // namespace comch::uct
