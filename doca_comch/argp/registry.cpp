#include "doca_comch/argp/registry.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

using State = doca_argp_param::State;
using Names = std::vector<std::string>;

constexpr const char* reserved_names[] = {
    "h", "v", "l", "j", "help", "version", "log-level", "sdk-log-level", "json"};

template <class T> T* find_known(std::list<T>& all, const T* wanted) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const T& each) { return &each == wanted; });
    return found != all.end() && found->state != State::refused ? &*found : nullptr;
}

template <class T> T* find_open(std::list<T>& all, const T* wanted) {
    T* const found = find_known(all, wanted);
    return found != nullptr && found->state == State::created ? found : nullptr;
}

template <class T> doca_error_t take_out(std::list<T>& all, const T* wanted) {
    const T* const found = find_known(all, wanted);
    if (found == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (found->state == State::registered) {
        return DOCA_ERROR_BAD_STATE;
    }
    all.remove_if([&](const T& each) { return &each == wanted; });
    return DOCA_SUCCESS;
}

bool is_name(const std::string& name) {
    return CLI::detail::valid_name_string(name);
}

bool is_reserved(const std::string& name) {
    return std::any_of(std::begin(reserved_names), std::end(reserved_names),
                       [&](const char* reserved) { return name == reserved; });
}

bool has_name(const doca_argp_param& param, const std::string& name) {
    return !name.empty() && (param.short_name == name || param.long_name == name);
}

bool share_a_name(const doca_argp_param& one, const doca_argp_param& other) {
    return has_name(one, other.short_name) || has_name(one, other.long_name);
}

/// A flag of the command, or of one below it, that has a name of this one; null if there is none.
const doca_argp_param* find_clash(const doca_argp_cmd& command, const doca_argp_param& param) {
    for (const doca_argp_param* const other : command.params) {
        if (share_a_name(*other, param)) {
            return other;
        }
    }
    for (const doca_argp_cmd* const below : command.commands) {
        if (const doca_argp_param* const other = find_clash(*below, param)) {
            return other;
        }
    }
    return nullptr;
}

/// The same, for all the flags that the commands below inherit.
const doca_argp_param* find_inherited_clash(const doca_argp_cmd& command) {
    for (const doca_argp_cmd* const below : command.commands) {
        for (const doca_argp_param* const param : command.params) {
            const doca_argp_param* const other =
                param->inherited ? find_clash(*below, *param) : nullptr;
            if (other != nullptr) {
                return other;
            }
        }
        if (const doca_argp_param* const other = find_inherited_clash(*below)) {
            return other;
        }
    }
    return nullptr;
}

bool is_type(doca_argp_type type) {
    return type >= DOCA_ARGP_TYPE_STRING && type <= DOCA_ARGP_TYPE_DOUBLE;
}

} // namespace

doca_error_t Registry::destroy(doca_argp_param* param) {
    return take_out(params_, param);
}
doca_error_t Registry::destroy(doca_argp_cmd* command) {
    return take_out(commands_, command);
}
doca_argp_param* Registry::open(doca_argp_param* param) {
    return find_open(params_, param);
}
doca_argp_cmd* Registry::open(doca_argp_cmd* command) {
    return find_open(commands_, command);
}

doca_error_t Registry::add(doca_argp_cmd* to, doca_argp_param* param) {
    return attach(find_known(commands_, to), param);
}

doca_error_t Registry::add(doca_argp_cmd* to, doca_argp_cmd* command) {
    return attach(to != command ? find_known(commands_, to) : nullptr, command);
}

doca_error_t Registry::attach(doca_argp_cmd* to, doca_argp_param* param) {
    if (find_known(params_, param) == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (param->state == State::registered) {
        return refuse(DOCA_ERROR_BAD_STATE, fmt::format("cannot register flag {}: it is registered",
                                                        param->shown_name()));
    }
    if (to != nullptr) {
        to->params.reserve(to->params.size() + 1); // without memory, nothing has happened
    }
    param->state = State::refused; // it is ours, whatever comes now
    if (to == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (to->state == State::registered) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      fmt::format("cannot register flag {}: its command '{}' is registered",
                                  param->shown_name(), to->name));
    }
    if ((param->short_name.empty() && param->long_name.empty()) || param->description.empty() ||
        param->callback == nullptr || !is_type(param->type)) {
        return refuse(DOCA_ERROR_INITIALIZATION,
                      fmt::format("cannot register flag '{}': it needs a name, a description, a "
                                  "callback and a type",
                                  param->shown_name()));
    }
    for (const std::string* const name : {&param->short_name, &param->long_name}) {
        const auto taken = [&](const doca_argp_param* other) { return has_name(*other, *name); };
        if (!name->empty() && (!is_name(*name) || is_reserved(*name) ||
                               std::any_of(to->params.begin(), to->params.end(), taken))) {
            return refuse(
                DOCA_ERROR_INVALID_VALUE,
                fmt::format("cannot register flag {}: the name '{}' is taken or malformed",
                            param->shown_name(), *name));
        }
    }
    to->params.push_back(param);
    if (const doca_argp_param* const other = find_inherited_clash(*to)) {
        to->params.pop_back();
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      fmt::format("cannot register flag {}: a command has {}", param->shown_name(),
                                  other->shown_name()));
    }
    param->state = State::registered;
    return DOCA_SUCCESS;
}

doca_error_t Registry::attach(doca_argp_cmd* to, doca_argp_cmd* command) {
    if (find_known(commands_, command) == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (command->state == State::registered) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      fmt::format("cannot register command '{}': it is registered", command->name));
    }
    if (to != nullptr) {
        to->commands.reserve(to->commands.size() + 1); // as above
    }
    command->state = State::refused;
    if (to == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (to->state == State::registered) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      fmt::format("cannot register command '{}': '{}', which it is to be below, "
                                  "is registered",
                                  command->name, to->name));
    }
    if (command->name.empty() || command->description.empty()) {
        return refuse(DOCA_ERROR_INITIALIZATION,
                      fmt::format("cannot register command '{}': it needs a name and a description",
                                  command->name));
    }
    if (!is_name(command->name) ||
        std::any_of(to->commands.begin(), to->commands.end(),
                    [&](const doca_argp_cmd* other) { return other->name == command->name; })) {
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      fmt::format("cannot register command '{}': the name is taken or malformed",
                                  command->name));
    }
    to->commands.push_back(command);
    if (const doca_argp_param* const other = find_inherited_clash(*to)) {
        to->commands.pop_back();
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      fmt::format("cannot register command '{}': it inherits a flag that has a "
                                  "name of {}",
                                  command->name, other->shown_name()));
    }
    command->state = State::registered;
    return DOCA_SUCCESS;
}

} // namespace comch::doca
