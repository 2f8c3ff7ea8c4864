// A domain's description: from TOML text to checked functions.
#pragma once

#include <string>
#include <string_view>

#include <comch/device.hpp>

namespace comch {

/// Parses and checks `text`. `source` is what messages call it, a path if there is one.
[[nodiscard]] Result<DomainDescription> parse_description(std::string_view text,
                                                          std::string source);

/// What a domain looks like that nobody described; says the same as config/domain.toml.
[[nodiscard]] std::string_view default_description_text() noexcept;

/// The description of the domain whose directory is `directory_fd`: from the file that
/// `explicit_file` names, else from domain.toml in the directory, else the default. `directory`
/// is the directory's path, for messages.
[[nodiscard]] Result<DomainDescription>
load_description(int directory_fd, const std::string& directory, const std::string& explicit_file);

} // namespace comch
