// What is not offered answers that it is not: libfabric's functions call through the objects' tables
// of operations without a look, so a null pointer there would end the program.
#include <cstddef>
#include <cstdint>
#include <functional>

#include "test_connection.hpp"

namespace comch::ofi::test {
namespace {

/// One of every kind of object.
class Unsupported : public testing::Test {
protected:
    static NodeOptions with_everything() {
        NodeOptions options;
        options.counters = true;
        options.shared_receives = true;
        return options;
    }
    Unsupported() {
        mr = rdm.expose(memory, sizeof(memory), 1);
        COMCH_FI(fi_poll_open(rdm.domain, nullptr, &poll));
        COMCH_FI(fi_eq_open(rdm.fabric, nullptr, &eq, nullptr));
        const CmEvent asked = next_event(listener.eq, {client.node.eq});
        EXPECT_EQ(asked.event, std::uint32_t{FI_CONNREQ});
        offer = asked.info;
    }
    ~Unsupported() override {
        EXPECT_EQ(fi_reject(listener.pep, offer->handle, nullptr, 0), 0);
        fi_freeinfo(offer);
        EXPECT_EQ(fi_close(&eq->fid), 0);
        EXPECT_EQ(fi_close(&poll->fid), 0);
    }

    char memory[64] = {};
    Node rdm{with_everything()};
    Listener listener{"unsupported"};
    Client client{"unsupported"};
    fid_mr* mr = nullptr;
    fid_poll* poll = nullptr;
    fid_eq* eq = nullptr;
    fi_info* offer = nullptr;
};

TEST_F(Unsupported, NoTableNorEntryIsNull) {
    struct Table {
        const char* what;
        const void* place;
        std::size_t
            last; ///< the offset of the last entry that programs call without a look at the size
    };
#define COMCH_TABLE(pointer, type, last)                                                           \
    { #pointer, pointer, offsetof(type, last) }
#define COMCH_FID(pointer) COMCH_TABLE((pointer)->fid.ops, fi_ops, ops_set)
#define COMCH_EP(pointer)                                                                          \
    COMCH_FID(pointer), COMCH_TABLE((pointer)->ops, fi_ops_ep, tx_size_left),                      \
        COMCH_TABLE((pointer)->cm, fi_ops_cm, join),                                               \
        COMCH_TABLE((pointer)->msg, fi_ops_msg, injectdata),                                       \
        COMCH_TABLE((pointer)->rma, fi_ops_rma, injectdata),                                       \
        COMCH_TABLE((pointer)->tagged, fi_ops_tagged, injectdata),                                 \
        COMCH_TABLE((pointer)->atomic, fi_ops_atomic, compwritevalid),                             \
        COMCH_TABLE((pointer)->collective, fi_ops_collective, barrier2)
    const Table tables[] = {
        COMCH_FID(rdm.fabric),
        COMCH_TABLE(rdm.fabric->ops, fi_ops_fabric, domain2),
        COMCH_FID(rdm.domain),
        COMCH_TABLE(rdm.domain->ops, fi_ops_domain, endpoint2),
        COMCH_TABLE(rdm.domain->mr, fi_ops_mr, regattr),
        COMCH_EP(rdm.ep),
        COMCH_EP(rdm.srx),
        COMCH_EP(client.node.ep),
        COMCH_FID(rdm.tx),
        COMCH_TABLE(rdm.tx->ops, fi_ops_cq, strerror),
        COMCH_FID(rdm.counters[0]),
        COMCH_TABLE(rdm.counters[0]->ops, fi_ops_cntr, seterr),
        COMCH_FID(eq),
        COMCH_TABLE(eq->ops, fi_ops_eq, strerror),
        COMCH_FID(rdm.av),
        COMCH_TABLE(rdm.av->ops, fi_ops_av, av_set),
        COMCH_FID(mr),
        COMCH_FID(poll),
        COMCH_TABLE(poll->ops, fi_ops_poll, poll_del),
        COMCH_FID(listener.pep),
        COMCH_TABLE(listener.pep->ops, fi_ops_ep, tx_size_left),
        COMCH_TABLE(listener.pep->cm, fi_ops_cm, join),
        COMCH_TABLE(offer->handle->ops, fi_ops, ops_set),
    };
#undef COMCH_EP
#undef COMCH_FID
#undef COMCH_TABLE
    for (const Table& table : tables) {
        SCOPED_TRACE(table.what);
        if (table.place == nullptr) {
            ADD_FAILURE() << "there is no table";
            continue;
        }
        const auto* const bytes = static_cast<const std::byte*>(table.place);
        std::size_t size = 0;
        std::memcpy(&size, bytes, sizeof(size));
        EXPECT_GT(size, table.last);
        for (std::size_t at = sizeof(size); at <= table.last; at += sizeof(void (*)())) {
            std::uintptr_t entry = 0;
            std::memcpy(&entry, bytes + at, sizeof(entry));
            EXPECT_NE(entry, 0u) << "entry " << at / sizeof(entry);
        }
    }
}

TEST_F(Unsupported, CallsSaySo) {
    fid_ep* const ep = rdm.ep;
    fid_ep* const srx = rdm.srx;
    fid_ep* const msg = client.node.ep;
    fid_pep* const pep = listener.pep;
    fid_ep* other = nullptr;
    fid_stx* stx = nullptr;
    fid_wait* wait = nullptr;
    fid_mc* group = nullptr;
    fid_av_set* set = nullptr;
    void* ops = nullptr;
    char data[64] = {};
    std::size_t length = sizeof(data);
    std::size_t count = 1;
    fi_tx_attr tx{};
    fi_wait_attr wait_attr{};
    fi_av_set_attr set_attr{};
    fi_collective_attr collective{};
    constexpr fi_datatype type = FI_UINT8;
    constexpr fi_op sum = FI_SUM;
    struct Call {
        const char* what;
        std::function<std::int64_t()> make;
    };
#define COMCH_CALL(call)                                                                           \
    {                                                                                              \
#call, [&] { return static_cast<std::int64_t>(call); }                                     \
    }
#define COMCH_COLLECTIVES(ep)                                                                      \
    COMCH_CALL(fi_barrier(ep, 0, nullptr)), COMCH_CALL(fi_barrier2(ep, 0, FI_MORE, nullptr)),      \
        COMCH_CALL(fi_broadcast(ep, data, 1, nullptr, 0, 0, type, 0, nullptr)),                    \
        COMCH_CALL(fi_alltoall(ep, data, 1, nullptr, data, nullptr, 0, type, 0, nullptr)),         \
        COMCH_CALL(fi_allreduce(ep, data, 1, nullptr, data, nullptr, 0, type, sum, 0, nullptr)),   \
        COMCH_CALL(fi_allgather(ep, data, 1, nullptr, data, nullptr, 0, type, 0, nullptr)),        \
        COMCH_CALL(                                                                                \
            fi_reduce_scatter(ep, data, 1, nullptr, data, nullptr, 0, type, sum, 0, nullptr)),     \
        COMCH_CALL(fi_reduce(ep, data, 1, nullptr, data, nullptr, 0, 0, type, sum, 0, nullptr)),   \
        COMCH_CALL(fi_scatter(ep, data, 1, nullptr, data, nullptr, 0, 0, type, 0, nullptr)),       \
        COMCH_CALL(fi_gather(ep, data, 1, nullptr, data, nullptr, 0, 0, type, 0, nullptr)),        \
        COMCH_CALL(fi_join(ep, data, 0, &group, nullptr)),                                         \
        COMCH_CALL(fi_join_collective(ep, 0, set, 0, &group, nullptr)),                            \
        COMCH_CALL(fi_tx_context(ep, 0, nullptr, &other, nullptr)),                                \
        COMCH_CALL(fi_rx_context(ep, 0, nullptr, &other, nullptr)),                                \
        COMCH_CALL(fi_rx_size_left(ep)), COMCH_CALL(fi_tx_size_left(ep)),                          \
        COMCH_CALL(fi_setname(&(ep)->fid, data, length)), COMCH_CALL(fi_ep_alias(ep, &other, 0))
    const Call calls[] = {
        COMCH_COLLECTIVES(ep),
        COMCH_COLLECTIVES(msg),
        COMCH_COLLECTIVES(srx),
        // A context for receives is an endpoint to libfabric.
        COMCH_CALL(fi_getname(&srx->fid, data, &length)),
        COMCH_CALL(fi_getpeer(srx, data, &length)),
        COMCH_CALL(fi_connect(srx, data, nullptr, 0)),
        COMCH_CALL(fi_accept(srx, nullptr, 0)),
        COMCH_CALL(fi_shutdown(srx, 0)),
        COMCH_CALL(fi_ep_bind(srx, &rdm.rx->fid, 0)),
        COMCH_CALL(fi_send(srx, data, 1, nullptr, 0, nullptr)),
        COMCH_CALL(fi_inject(srx, data, 1, 0)),
        COMCH_CALL(fi_tsend(srx, data, 1, nullptr, 0, 0, nullptr)),
        COMCH_CALL(fi_read(srx, data, 1, nullptr, 0, 0, 0, nullptr)),
        COMCH_CALL(fi_write(srx, data, 1, nullptr, 0, 0, 0, nullptr)),
        COMCH_CALL(fi_inject_write(srx, data, 1, 0, 0, 0)),
        COMCH_CALL(fi_atomic(srx, data, 1, nullptr, 0, 0, 0, type, sum, nullptr)),
        COMCH_CALL(
            fi_fetch_atomic(srx, data, 1, nullptr, data, nullptr, 0, 0, 0, type, sum, nullptr)),
        COMCH_CALL(fi_compare_atomic(srx, data, 1, nullptr, data, nullptr, data, nullptr, 0, 0, 0,
                                     type, FI_CSWAP, nullptr)),
        COMCH_CALL(fi_atomicvalid(srx, type, sum, &count)),
        COMCH_CALL(fi_fetch_atomicvalid(srx, type, sum, &count)),
        COMCH_CALL(fi_compare_atomicvalid(srx, type, FI_CSWAP, &count)),
        COMCH_CALL(fi_cancel(&pep->fid, nullptr)),
        COMCH_CALL(
            fi_setopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &count, sizeof(count))),
        COMCH_CALL(fi_wait_open(rdm.fabric, &wait_attr, &wait)),
        COMCH_CALL(fi_scalable_ep(rdm.domain, rdm.info, &other, nullptr)),
        COMCH_CALL(fi_stx_context(rdm.domain, &tx, &stx, nullptr)),
        COMCH_CALL(fi_query_collective(rdm.domain, FI_BARRIER, &collective, 0)),
        COMCH_CALL(fi_av_set(rdm.av, &set_attr, &set, nullptr)),
        COMCH_CALL(fi_mr_refresh(mr, nullptr, 0, 0)),
        COMCH_CALL(fi_close(offer->handle)),
        COMCH_CALL(fi_control(&rdm.fabric->fid, FI_GETWAIT, nullptr)),
        COMCH_CALL(fi_control(&rdm.av->fid, FI_ENABLE, nullptr)),
        COMCH_CALL(fi_open_ops(&rdm.domain->fid, "some", 0, &ops, nullptr)),
        COMCH_CALL(fi_set_ops(&rdm.domain->fid, "some", 0, data, nullptr)),
    };
#undef COMCH_COLLECTIVES
#undef COMCH_CALL
    for (const Call& call : calls) {
        EXPECT_EQ(call.make(), -FI_ENOSYS) << call.what;
    }
}

} // namespace
} // namespace comch::ofi::test
