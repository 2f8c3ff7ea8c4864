// Lists of devices and representors: arrays of pointers that end with a null; what they point to is
// the list's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "doca_comch/common/status.hpp"

namespace comch::doca {

template <class Info> void destroy_list(Info** list) {
    for (Info** at = list; *at != nullptr; ++at) {
        delete *at;
    }
    delete[] list;
}

template <class Info, class Value>
[[nodiscard]] Info** make_list(const std::vector<Value>& values) {
    std::unique_ptr<Info*[], void (*)(Info**)> list(
        new Info* [values.size() + 1] {}, &destroy_list<Info>);
    for (std::size_t i = 0; i < values.size(); ++i) {
        list[i] = new Info{values[i]};
    }
    return list.release();
}

/// A list of what `find` finds.
template <class Info, class Find>
[[nodiscard]] doca_error_t create_list(Info**& list, std::uint32_t& count, Find find) {
    list = nullptr;
    count = 0;
    return guarded([&] {
        const auto found = find();
        if (!found) {
            return refuse(found.error());
        }
        list = make_list<Info>(*found);
        count = static_cast<std::uint32_t>(found->size());
        return DOCA_SUCCESS;
    });
}

} // namespace comch::doca
