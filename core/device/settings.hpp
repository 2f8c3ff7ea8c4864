// What the settings of a domain and a device are called where they come from, for messages about
// their values; and the rule by which a domain's name becomes a directory.
#pragma once

#include <string>
#include <string_view>

#include <comch/device.hpp>

namespace comch {

/// Of what a program was told itself, as its users know it: "--device", "UCX_COMCH_DEVICE". What
/// comes from the environment is called by the variable's name anyway.
struct SettingNames {
    std::string_view domain = "the domain setting";
    std::string_view domain_file = "the domain file setting";
    std::string_view side = "the side setting";
    std::string_view device = "the device setting";
};

/// While it lives, Domain::open() and default_device() in this thread call settings so.
class NamedSettings {
public:
    explicit NamedSettings(const SettingNames& names) noexcept;
    ~NamedSettings();
    NamedSettings(const NamedSettings&) = delete;
    NamedSettings& operator=(const NamedSettings&) = delete;

private:
    SettingNames before_;
};

[[nodiscard]] const SettingNames& setting_names() noexcept;

/// Where a domain's directory is, whether it is there or not.
struct DomainDirectory {
    std::string path;
    std::string parent;
    std::string last;    ///< opened apart from the rest, without following a link
    std::string setting; ///< what named it, as messages call it; COMCH_DOMAIN if nothing did
    std::string given;   ///< that setting's value; empty: nothing named it
};

/// The directory that Domain::open() opens.
[[nodiscard]] Result<DomainDirectory> domain_directory(const DomainOptions& options);

} // namespace comch
