#include "description.hpp"

namespace comch {

// Kept equal to config/domain.toml, which explains it, by a test. Built in, so that a process
// needs no file to start.
std::string_view default_description_text() noexcept {
    return R"toml(
[dpu]
name  = "dpu0"
pci   = "0000:03:00.0"
iface = "p0"
vuid  = "COMCH0000S0D0F0DPU"
mac   = "02:c0:3c:00:00:00"

[[host]]
name              = "host_pf0"
kind              = "PF"
index             = 0
pci               = "0000:3b:00.0"
iface             = "enp59s0f0np0"
representor_iface = "pf0hpf"
vuid              = "COMCH0000S0D0F0"
mac               = "02:c0:3c:00:01:00"

[[host]]
name              = "host_pf0vf0"
kind              = "VF"
index             = 0
pci               = "0000:3b:00.2"
iface             = "enp59s0f0v0"
representor_iface = "pf0vf0"
vuid              = "COMCH0000S0D0F0VF1"
mac               = "02:c0:3c:00:01:01"

[[host]]
name              = "host_pf0vf1"
kind              = "VF"
index             = 1
pci               = "0000:3b:00.3"
iface             = "enp59s0f0v1"
representor_iface = "pf0vf1"
vuid              = "COMCH0000S0D0F0VF2"
mac               = "02:c0:3c:00:01:02"
)toml";
}

} // namespace comch
