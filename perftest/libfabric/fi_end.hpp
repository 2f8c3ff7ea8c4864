// One end of a measurement: a reliable-datagram endpoint of any libfabric provider, used as
// programs for many providers do: tagged messages, one completion queue for each direction, polled.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "silence.hpp"

namespace comch::perftest {

class FiEnd {
public:
    /// The provider's first endpoint that sends and receives tagged messages, and with `rma` writes
    /// and reads the other end's memory; on the device of that name if there is one given. Calls
    /// throw when nothing has moved for `timeout` seconds, and once `other_has_ended`, which a signal
    /// handler may set.
    FiEnd(const std::string& provider, const std::string& domain, bool rma, double timeout,
          const volatile std::sig_atomic_t& other_has_ended);
    ~FiEnd();
    FiEnd(const FiEnd&) = delete;
    FiEnd& operator=(const FiEnd&) = delete;

    /// To be given to the other end's meet().
    [[nodiscard]] std::vector<std::byte> name() const;
    void meet(std::span<const std::byte> peer_name);
    /// Memory for messages, registered if the provider wants that.
    void use(std::span<std::byte> memory);
    /// What the other end's reach() wants, after use().
    struct Target {
        std::uint64_t address = 0;
        std::uint64_t key = 0;
    };
    [[nodiscard]] Target target() const noexcept { return target_; }
    void reach(const Target& theirs) noexcept { theirs_ = theirs; }

    void post_receive(std::byte* to, std::size_t size) {
        retry(rx_, [&] { return fi_trecv(ep_, to, size, desc_, peer_, tag, 0, nullptr); });
    }
    void send(const std::byte* from, std::size_t size) {
        if (size <= inject_size_) {
            retry(tx_, [&] { return fi_tinject(ep_, from, size, peer_, tag); });
        } else {
            retry(tx_, [&] { return fi_tsend(ep_, from, size, desc_, peer_, tag, nullptr); });
            ++sending_;
        }
    }
    void write(const std::byte* from, std::size_t size) {
        retry(tx_, [&] {
            return fi_write(ep_, from, size, desc_, peer_, theirs_.address, theirs_.key, nullptr);
        });
        ++sending_;
    }
    void read(std::byte* to, std::size_t size) {
        retry(tx_, [&] {
            return fi_read(ep_, to, size, desc_, peer_, theirs_.address, theirs_.key, nullptr);
        });
        ++sending_;
    }
    /// For the other end's sake.
    void progress() {
        poll(tx_);
        poll(rx_);
    }
    /// Until so many receives have completed.
    void await_receives(std::size_t count) { await(rx_, count); }
    /// Until every send, write and read has.
    void await_sends() {
        await(tx_, sending_);
        sending_ = 0;
    }

private:
    static constexpr std::uint64_t tag = 7;

    struct Queue {
        fid_cq* cq = nullptr;
        std::size_t ready = 0; ///< completions that nobody has asked for yet
    };
    void poll(Queue& queue) {
        fi_cq_tagged_entry entries[16];
        const ssize_t count = fi_cq_read(queue.cq, entries, std::size(entries));
        if (count > 0) {
            queue.ready += static_cast<std::size_t>(count);
        } else if (count != -FI_EAGAIN) {
            fail(queue, count);
        }
    }
    void await(Queue& queue, std::size_t count) {
        Silence silence(timeout_);
        while (queue.ready < count) {
            throw_if_alone();
            poll(queue);
            silence.look(queue.ready);
        }
        queue.ready -= count;
    }
    template <class Call> void retry(Queue& queue, Call&& call) {
        Silence silence(timeout_);
        for (;;) {
            const ssize_t result = call();
            if (result == 0) [[likely]] {
                return;
            }
            if (result != -FI_EAGAIN) {
                throw std::runtime_error(std::string("libfabric: ") +
                                         fi_strerror(static_cast<int>(-result)));
            }
            throw_if_alone();
            poll(queue);
            poll(&queue == &tx_ ? rx_ : tx_); // either may be what makes progress
            silence.look(tx_.ready + rx_.ready);
        }
    }
    [[noreturn]] void fail(Queue& queue, ssize_t error);
    /// A receive from anybody does not fail when the one is gone who would have sent.
    void throw_if_alone() const {
        if (other_has_ended_ != 0) [[unlikely]] {
            throw std::runtime_error("the other process has ended");
        }
    }

    double timeout_;
    const volatile std::sig_atomic_t& other_has_ended_;
    fi_info* info_ = nullptr;
    fid_fabric* fabric_ = nullptr;
    fid_domain* domain_ = nullptr;
    fid_av* av_ = nullptr;
    fid_mr* mr_ = nullptr;
    fid_ep* ep_ = nullptr;
    Queue tx_;
    Queue rx_;
    void* desc_ = nullptr;
    bool rma_ = false;
    Target target_;
    Target theirs_;
    fi_addr_t peer_ = FI_ADDR_UNSPEC;
    std::size_t inject_size_ = 0;
    std::size_t sending_ = 0;
};

} // namespace comch::perftest
