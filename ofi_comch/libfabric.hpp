// libfabric's headers, and the little that differs between the versions that this builds against
// (1.17 to 2.x).
#pragma once

#include <cstddef>
#include <utility>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wzero-as-null-pointer-constant"
#include <cerrno>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#pragma GCC diagnostic pop

namespace comch::ofi {

/// FI_MR_BASIC and FI_MR_SCALABLE, which are old words for sets of modes: in 2.x, using their names
/// is a warning that cannot be turned off.
inline constexpr int mr_basic = 1 << 0;
inline constexpr int mr_scalable = 1 << 1;

/// An entry of an operation table for a call that is not supported: answers -FI_ENOSYS.
template <class Function> struct Unsupported;
template <class Result, class... Arguments> struct Unsupported<Result (*)(Arguments...)> {
    static Result call(Arguments...) noexcept { return -FI_ENOSYS; }
};
template <class Function> inline constexpr Function unsupported = Unsupported<Function>::call;

/// A table that has no other entries. (A null pointer would not do, neither to a table nor in one:
/// libfabric's functions call without a look.)
struct AnyUnsupported {
    template <class Result, class... Arguments> using Entry = Result (*)(Arguments...);
    template <class Result, class... Arguments>
    constexpr operator Entry<Result, Arguments...>() const noexcept { // NOLINT: it stands for it
        return unsupported<Entry<Result, Arguments...>>;
    }
};
template <class Table>
inline constexpr Table all_unsupported = []<std::size_t... At>(std::index_sequence<At...>) {
    return Table{sizeof(Table), (static_cast<void>(At), AnyUnsupported{})...};
}
(std::make_index_sequence<sizeof(Table) / sizeof(void (*)()) - 1>{});

/// What every object can besides its own calls.
constexpr fi_ops
operations_of_fid(decltype(fi_ops::close) close,
                  decltype(fi_ops::control) control = unsupported<decltype(fi_ops::control)>,
                  decltype(fi_ops::bind) bind = unsupported<decltype(fi_ops::bind)>) {
    return {sizeof(fi_ops),
            close,
            bind,
            control,
            unsupported<decltype(fi_ops::ops_open)>,
            unsupported<decltype(fi_ops::tostr)>,
            unsupported<decltype(fi_ops::ops_set)>};
}

/// The object that a fid of ours begins.
template <class T> [[nodiscard]] T* object_of(void* fid) noexcept {
    return static_cast<T*>(fid);
}

} // namespace comch::ofi
