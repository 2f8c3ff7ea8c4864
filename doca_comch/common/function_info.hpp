// What devices and representors tell of their functions.
#pragma once

#include <cstdint>
#include <string_view>

#include <comch/device.hpp>
#include <doca_dev.h>

namespace comch::doca {

/// With its NUL into `size` bytes, of which as many as `needed` must be there.
[[nodiscard]] doca_error_t copy_text(std::string_view text, char* to, std::uint32_t size,
                                     std::uint32_t needed);
[[nodiscard]] doca_error_t compare_address(const Function& function, const char* address,
                                           std::uint8_t* equal);
[[nodiscard]] doca_pci_func_type type_of(FunctionKind kind);
/// The number of a VF, say, if it is one.
[[nodiscard]] doca_error_t copy_index(const Function& function, FunctionKind kind,
                                      std::uint32_t* index);
/// The DPU is 0, the functions of the host follow.
[[nodiscard]] std::uint16_t vhca_id_of(const Domain& domain, const Function& function);

} // namespace comch::doca
