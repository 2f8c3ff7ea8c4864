// UCX's headers, and everything in which UCX versions differ.
//
// The rest of this folder is written against the names defined here; supporting another UCX is a
// matter of this file. What differs, by version:
//   1.13   md ops: mem_reg(address, length, flags); attributes in uct_md_attr_t; no plugin path
//   1.18+  md ops take params structs, uct_md_attr_v2_t; iface query by uct_iface_attr_t still
//   1.22+  finds libuct_comch.so by itself through UCX_PLUGIN_PATH
#pragma once

extern "C" {
#include <ucm/api/ucm.h>
#include <ucp/api/ucp.h>
#include <ucs/async/async.h>
#include <ucs/config/parser.h>
#include <ucs/datastruct/queue.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/memory/rcache.h>
#include <ucs/sys/string.h>
#include <ucs/type/class.h>
#include <uct/api/uct.h>
#include <uct/api/v2/uct_v2.h>
#include <uct/base/uct_component.h>
#include <uct/base/uct_iface.h>
#include <uct/base/uct_md.h>
#include <uct/base/uct_worker.h>
}

#include <cstddef>

namespace comch::uct {

/// The UCX that this was built against; internal structures are only good for this one.
inline constexpr unsigned built_major = UCP_API_MAJOR;
inline constexpr unsigned built_minor = UCP_API_MINOR;

static_assert(built_major == 1 && built_minor == 13,
              "this UCX is not supported yet: teach ucx_compat.hpp its differences");

// ---- UCX's object model, called from C++ --------------------------------------------------------

[[nodiscard]] inline ucs_status_t init_base_iface(uct_base_iface_t* self, uct_iface_ops_t* ops,
                                                  uct_iface_internal_ops_t* internal_ops,
                                                  uct_md_h md, uct_worker_h worker,
                                                  const uct_iface_params_t* params,
                                                  const uct_iface_config_t* config) {
    int init_count = 1;
    return uct_base_iface_t_init(self, &uct_base_iface_t_class, &init_count, ops, internal_ops, md,
                                 worker, params, config);
}

inline void cleanup_base_iface(uct_base_iface_t* self) {
    ucs_class_call_cleanup_chain(&uct_base_iface_t_class, self, -1);
}

[[nodiscard]] inline ucs_status_t init_base_ep(uct_base_ep_t* self, uct_base_iface_t* iface) {
    int init_count = 1;
    return uct_base_ep_t_init(self, &uct_base_ep_t_class, &init_count, iface);
}

inline void cleanup_base_ep(uct_base_ep_t* self) {
    ucs_class_call_cleanup_chain(&uct_base_ep_t_class, self, -1);
}

} // namespace comch::uct
