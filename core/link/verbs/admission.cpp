#include "core/link/verbs/admission.hpp"

#include <algorithm>
#include <cstring>

namespace comch::link::verbs {

const Function* function_of(const DomainDescription& description, Side side, FunctionId id) {
    if (side == Side::dpu) {
        return id == description.dpu.id ? &description.dpu : nullptr;
    }
    const auto found = std::find_if(description.host.begin(), description.host.end(),
                                    [&](const Function& function) { return function.id == id; });
    return found == description.host.end() ? nullptr : &*found;
}

wire::Why check_claim(const Domain& domain, const wire::Request& request,
                      std::string_view address) {
    std::uint64_t id = 0;
    std::memcpy(&id, domain.id().bytes.data(), sizeof(id));
    if (request.domain != id) {
        return wire::Why::nobody;
    }
    // Who it is says its address, not its request: that must only agree.
    const Function* const claimed =
        request.side > static_cast<std::uint8_t>(Side::dpu)
            ? nullptr
            : function_of(domain.description(), static_cast<Side>(request.side), request.function);
    return claimed != nullptr && !address.empty() && claimed->address == address
               ? wire::Why::none
               : wire::Why::wrong_function;
}

} // namespace comch::link::verbs
