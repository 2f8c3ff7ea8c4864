#include "doca_comch/dpa/copy_and_wait.hpp"

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <comch/progress.hpp>

#include "core/transfer/client.hpp"
#include "doca_comch/common/mmap.hpp"
#include "doca_comch/dpa/dpa.hpp"

namespace comch::doca {
namespace {

/// A thread's own way to other processes' memory, through one device.
class Copier {
public:
    [[nodiscard]] static std::unique_ptr<Copier> open(const Device& device) {
        auto engine = ProgressEngine::create();
        if (!engine) {
            return nullptr;
        }
        auto client = transfer::Client::open(**engine, device, [](void* cookie, Errc status) {
            *static_cast<std::optional<Errc>*>(cookie) = status;
        });
        if (!client) {
            return nullptr;
        }
        return std::unique_ptr<Copier>(new Copier(device, std::move(*engine), std::move(*client)));
    }

    [[nodiscard]] bool is_through(const Device& device) const {
        return device_.domain() == device.domain() && device_.function().id == device.function().id;
    }

    /// `begin` starts the operation with the cookie that it is given.
    template <class Begin> Errc run(Begin begin) {
        alignas(16) std::optional<Errc> outcome;
        Errc begun = Errc::again;
        while ((begun = begin(*client_, &outcome)) == Errc::again) {
            (void)engine_->progress();
            if (doca_dpa_thread::is_to_stop()) {
                return Errc::canceled;
            }
        }
        if (begun != Errc::in_progress) {
            return begun;
        }
        while (!outcome) {
            (void)engine_->progress();
            if (!outcome && doca_dpa_thread::is_to_stop()) {
                client_.reset(); // nobody writes into the outcome any more
                return Errc::canceled;
            }
        }
        return *outcome;
    }
    [[nodiscard]] bool works() const noexcept { return client_ != nullptr; }

private:
    Copier(const Device& device, std::unique_ptr<ProgressEngine> engine,
           std::unique_ptr<transfer::Client> client)
        : device_(device), engine_(std::move(engine)), client_(std::move(client)) {}

    Device device_;
    std::unique_ptr<ProgressEngine> engine_;
    std::unique_ptr<transfer::Client> client_;
};

} // namespace

Errc copy_and_wait(const doca_mmap& to_map, void* to, const doca_mmap& from_map, const void* from,
                   std::size_t length) {
    if (!to_map.imported() && !from_map.imported()) {
        std::memmove(to, from, length);
        return Errc::ok;
    }
    if (length == 0) {
        return Errc::ok;
    }
    const std::optional<Device>& device = to_map.imported() ? to_map.importer : from_map.importer;
    thread_local std::unique_ptr<Copier> copier;
    if (copier == nullptr || !copier->works() || !copier->is_through(*device)) {
        copier = Copier::open(*device);
        if (copier == nullptr) {
            return Errc::no_memory;
        }
    }
    return copier->run([&](transfer::Client& client, void* cookie) {
        return to_map.imported()
                   ? client.write({*to_map.map, to_map.service, to}, from, length, cookie)
                   : client.read({*from_map.map, from_map.service, from}, to, length, cookie);
    });
}

} // namespace comch::doca
