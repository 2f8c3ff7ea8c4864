// The files of a domain's directory that are not an entry of anybody's.
#pragma once

namespace comch {

inline constexpr const char* id_file = "domain.id";
inline constexpr const char* new_id_file = "domain.id.new";
inline constexpr const char* lock_file = "domain.lock";

} // namespace comch
