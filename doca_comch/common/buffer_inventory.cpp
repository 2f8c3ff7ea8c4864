#include <doca_buf_inventory.h>

#include "doca_comch/common/buffer.hpp"
#include "doca_comch/common/status.hpp"

using comch::doca::guarded;
using comch::doca::refuse;

struct doca_buf_inventory {
    comch::doca::BufferStore store;
    doca_data user_data{};
    bool started = false;
};

namespace {

doca_error_t unused(const doca_buf_inventory& inventory) {
    return inventory.store.unused()
               ? DOCA_SUCCESS
               : refuse(DOCA_ERROR_IN_USE, "buffers of the inventory are not given back");
}

doca_error_t place(doca_buf& buffer, const doca_mmap& mmap, void* address, std::size_t length,
                   void* data, std::size_t data_length) {
    if (mmap.map->check(address, length, 0) != comch::Errc::ok) {
        return refuse(DOCA_ERROR_INVALID_VALUE, "the buffer's range is not inside the memory map");
    }
    doca_buf placed = buffer;
    placed.head = static_cast<std::byte*>(address);
    placed.length = length;
    if (!placed.set_data(data, data_length)) {
        return refuse(DOCA_ERROR_INVALID_VALUE, "the buffer's data is not inside its range");
    }
    buffer = placed;
    return DOCA_SUCCESS;
}

} // namespace

doca_error_t doca_buf_inventory_create(size_t num_elements, doca_buf_inventory** buf_inventory) {
    if (num_elements == 0 || num_elements > UINT32_MAX || buf_inventory == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        auto inventory = std::make_unique<doca_buf_inventory>();
        inventory->store.add(num_elements);
        *buf_inventory = inventory.release();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_buf_inventory_destroy(doca_buf_inventory* inventory) {
    if (inventory == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const doca_error_t result = unused(*inventory);
    if (result == DOCA_SUCCESS) {
        delete inventory;
    }
    return result;
}

doca_error_t doca_buf_inventory_start(doca_buf_inventory* inventory) {
    if (inventory == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (inventory->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    inventory->started = true;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_inventory_stop(doca_buf_inventory* inventory) {
    if (inventory == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!inventory->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    const doca_error_t result = unused(*inventory);
    if (result == DOCA_SUCCESS) {
        inventory->started = false;
    }
    return result;
}

doca_error_t doca_buf_inventory_expand(doca_buf_inventory* inventory, uint32_t num_elements) {
    if (inventory == nullptr || num_elements == 0 ||
        num_elements > UINT32_MAX - inventory->store.total()) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!inventory->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    return guarded([&] {
        inventory->store.add(num_elements);
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_buf_inventory_buf_get_by_args(doca_buf_inventory* inventory, doca_mmap* mmap,
                                                void* addr, size_t len, void* data, size_t data_len,
                                                doca_buf** buf) {
    if (inventory == nullptr || mmap == nullptr || addr == nullptr || data == nullptr ||
        buf == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!inventory->started || (!mmap->started() && !mmap->collects)) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot take a buffer: start the inventory and the "
                                            "memory map first");
    }
    if (mmap->collects) {
        mmap = mmap->chunk_of(addr, len);
        if (mmap == nullptr) {
            return refuse(DOCA_ERROR_INVALID_VALUE,
                          "the buffer's range is not inside one of the memory map's");
        }
    }
    doca_buf* const taken = inventory->store.take(*mmap);
    if (taken == nullptr) {
        return DOCA_ERROR_NO_MEMORY;
    }
    const doca_error_t result = place(*taken, *mmap, addr, len, data, data_len);
    if (result != DOCA_SUCCESS) {
        inventory->store.give_back(*taken);
        taken->references = 0;
        return result;
    }
    *buf = taken;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_inventory_buf_get_by_addr(doca_buf_inventory* inventory, doca_mmap* mmap,
                                                void* addr, size_t len, doca_buf** buf) {
    return doca_buf_inventory_buf_get_by_args(inventory, mmap, addr, len, addr, 0, buf);
}

doca_error_t doca_buf_inventory_buf_get_by_data(doca_buf_inventory* inventory, doca_mmap* mmap,
                                                void* data, size_t data_len, doca_buf** buf) {
    return doca_buf_inventory_buf_get_by_args(inventory, mmap, data, data_len, data, data_len, buf);
}

doca_error_t doca_buf_inventory_buf_dup(doca_buf_inventory* inventory, const doca_buf* src_buf,
                                        doca_buf** dst_buf) {
    if (inventory == nullptr || src_buf == nullptr || src_buf->references == 0 ||
        dst_buf == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return doca_buf_inventory_buf_get_by_args(inventory, src_buf->mmap, src_buf->head,
                                              src_buf->length, src_buf->data, src_buf->data_length,
                                              dst_buf);
}

doca_error_t doca_buf_inventory_buf_reuse_by_args(doca_buf* buf, void* addr, size_t len, void* data,
                                                  size_t data_len) {
    if (buf == nullptr || addr == nullptr || data == nullptr || buf->references == 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (buf->references != 1 || buf->chained() || buf->tasks != 0) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "cannot reuse the buffer: others refer to it, or a task, or it is in a list");
    }
    if (buf->store->is_pool) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "cannot reuse the buffer: it is a pool's, whose buffers keep their places");
    }
    return place(*buf, *buf->mmap, addr, len, data, data_len);
}

doca_error_t doca_buf_inventory_buf_reuse_by_addr(doca_buf* buf, void* addr, size_t len) {
    return doca_buf_inventory_buf_reuse_by_args(buf, addr, len, addr, 0);
}

doca_error_t doca_buf_inventory_buf_reuse_by_data(doca_buf* buf, void* data, size_t data_len) {
    return doca_buf_inventory_buf_reuse_by_args(buf, data, data_len, data, data_len);
}

doca_error_t doca_buf_inventory_get_num_elements(const doca_buf_inventory* inventory,
                                                 uint32_t* num_of_elements) {
    if (inventory == nullptr || num_of_elements == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *num_of_elements = inventory->store.total();
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_inventory_get_num_free_elements(const doca_buf_inventory* inventory,
                                                      uint32_t* num_of_free_elements) {
    if (inventory == nullptr || num_of_free_elements == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *num_of_free_elements = inventory->store.free_count();
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_inventory_set_user_data(doca_buf_inventory* inventory, doca_data user_data) {
    if (inventory == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    inventory->user_data = user_data;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_inventory_get_user_data(const doca_buf_inventory* inventory,
                                              doca_data* user_data) {
    if (inventory == nullptr || user_data == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *user_data = inventory->user_data;
    return DOCA_SUCCESS;
}
