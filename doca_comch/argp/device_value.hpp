// Flags whose value is a device: it is found by what the command line says, and opened.
//
//     <device>[,<arguments>]                    of a device
//     <device>,<representor>[,<arguments>]      of a representor
//
// A device is "pci/" and its PCI address, or the address alone, or the name that it or its network
// interface has. A representor is its interface ("pf0vf0"), or the name, PCI address or VUID of the
// function that it stands for.
#pragma once

#include <list>
#include <string>
#include <vector>

#include <comch/error.hpp>
#include <doca_argp.h>

namespace comch::doca {

class DeviceValues {
public:
    /// Of the last that was refused: for people.
    std::string why;

    doca_argp_dev_open_cb_t callback = nullptr; ///< instead of doca_dev_open()
    void* callback_context = nullptr;

    [[nodiscard]] doca_error_t open(const std::string& text, doca_argp_device_ctx& opened);
    /// The device of a representor is opened once, however many of its representors are named, and
    /// stays so: programs close the representors, but not that device.
    [[nodiscard]] doca_error_t open(const std::string& text, doca_argp_device_rep_ctx& opened);

private:
    [[nodiscard]] doca_error_t refuse(std::string sentence);
    [[nodiscard]] doca_error_t open_device(doca_devinfo* found, doca_dev*& device);
    [[nodiscard]] doca_error_t find_and_open(const std::string& name, bool of_representor,
                                             doca_dev*& device);
    [[nodiscard]] const char* keep(const std::string& arguments);

    std::list<std::string> arguments_; ///< programs keep pointers into them
    std::vector<doca_dev*> with_representors_;
};

} // namespace comch::doca
