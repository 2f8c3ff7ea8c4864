// What the program registered: its flags, its commands, and theirs.
#pragma once

#include <list>
#include <string>
#include <vector>

#include <doca_argp.h>

#include "doca_comch/argp/param.hpp"

namespace comch::doca {

class Registry {
public:
    [[nodiscard]] doca_argp_param* create_param() { return &params_.emplace_back(); }
    [[nodiscard]] doca_argp_cmd* create_command() { return &commands_.emplace_back(); }
    [[nodiscard]] doca_error_t destroy(doca_argp_param* param);
    [[nodiscard]] doca_error_t destroy(doca_argp_cmd* command);
    /// Null if there is none such that can still be changed.
    [[nodiscard]] doca_argp_param* open(doca_argp_param* param);
    [[nodiscard]] doca_argp_cmd* open(doca_argp_cmd* command);

    /// Whatever they answer, what is added is ours from then on.
    [[nodiscard]] doca_error_t add(doca_argp_param* param) { return attach(&program_, param); }
    [[nodiscard]] doca_error_t add(doca_argp_cmd* command) { return attach(&program_, command); }
    [[nodiscard]] doca_error_t add(doca_argp_cmd* to, doca_argp_param* param);
    [[nodiscard]] doca_error_t add(doca_argp_cmd* to, doca_argp_cmd* command);

    [[nodiscard]] const doca_argp_cmd& program() const { return program_; }

private:
    [[nodiscard]] doca_error_t attach(doca_argp_cmd* to, doca_argp_param* param);
    [[nodiscard]] doca_error_t attach(doca_argp_cmd* to, doca_argp_cmd* command);

    std::list<doca_argp_param> params_; ///< every one that was created; pointers stay valid
    std::list<doca_argp_cmd> commands_; ///< the same
    doca_argp_cmd program_;
};

} // namespace comch::doca
