#include <doca_buf_pool.h>

#include <bit>

#include "doca_comch/common/buffer.hpp"
#include "doca_comch/common/status.hpp"

using comch::doca::guarded;
using comch::doca::refuse;

struct doca_buf_pool {
    comch::doca::BufferStore store;
    doca_mmap* mmap = nullptr;
    std::weak_ptr<const char> mmap_life;
    std::size_t element_size = 0;
    std::size_t alignment = 1;
    doca_data user_data{};
    bool started = false;

    [[nodiscard]] bool has_memory() const noexcept {
        return !mmap_life.expired() && mmap->started();
    }
};

namespace {

/// Gives each buffer its piece of the map. False: there is not enough of it.
bool place_all(doca_buf_pool& pool) {
    auto at = reinterpret_cast<std::uintptr_t>(pool.mmap->address);
    const std::uintptr_t end = at + pool.mmap->length;
    for (doca_buf* buffer = pool.store.first_free(); buffer != nullptr; buffer = buffer->next) {
        const std::uintptr_t begin = (at + pool.alignment - 1) & ~(pool.alignment - 1);
        if (begin < at || begin > end || pool.element_size > end - begin) {
            return false;
        }
        buffer->head = reinterpret_cast<std::byte*>(begin);
        buffer->length = pool.element_size;
        at = begin + pool.element_size;
    }
    return true;
}

} // namespace

doca_error_t doca_buf_pool_create(size_t num_elements, size_t element_size, const doca_mmap* mmap,
                                  doca_buf_pool** buf_pool) {
    if (num_elements == 0 || num_elements > UINT32_MAX || element_size == 0 || mmap == nullptr ||
        buf_pool == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        auto pool = std::make_unique<doca_buf_pool>();
        pool->store.add(num_elements);
        pool->store.is_pool = true;
        pool->element_size = element_size;
        pool->mmap = const_cast<doca_mmap*>(mmap);
        pool->mmap_life = mmap->life;
        *buf_pool = pool.release();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_buf_pool_destroy(doca_buf_pool* buf_pool) {
    if (buf_pool == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!buf_pool->store.unused()) {
        return refuse(DOCA_ERROR_IN_USE, "buffers of the pool are not given back");
    }
    delete buf_pool;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_pool_start(doca_buf_pool* buf_pool) {
    if (buf_pool == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (buf_pool->started || !buf_pool->has_memory()) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot start the pool: it is started already, or its "
                                            "memory map is not, or was destroyed");
    }
    if (!place_all(*buf_pool)) {
        return refuse(DOCA_ERROR_INITIALIZATION,
                      "cannot start the pool: its memory map is too small for its elements");
    }
    buf_pool->started = true;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_pool_stop(doca_buf_pool* buf_pool) {
    if (buf_pool == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!buf_pool->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    if (!buf_pool->store.unused()) {
        return refuse(DOCA_ERROR_IN_USE, "buffers of the pool are not given back");
    }
    buf_pool->started = false;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_pool_buf_alloc(doca_buf_pool* buf_pool, doca_buf** buf) {
    if (buf_pool == nullptr || buf == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!buf_pool->started || !buf_pool->has_memory()) {
        return DOCA_ERROR_BAD_STATE;
    }
    doca_buf* const taken = buf_pool->store.take(*buf_pool->mmap);
    if (taken == nullptr) {
        return DOCA_ERROR_EMPTY;
    }
    taken->data = taken->head;
    taken->data_length = 0;
    *buf = taken;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_pool_get_element_size(const doca_buf_pool* buf_pool, size_t* element_size) {
    if (buf_pool == nullptr || element_size == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *element_size = buf_pool->element_size;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_pool_get_num_elements(const doca_buf_pool* buf_pool, uint32_t* num_elements) {
    if (buf_pool == nullptr || num_elements == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *num_elements = buf_pool->store.total();
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_pool_get_num_free_elements(const doca_buf_pool* buf_pool,
                                                 uint32_t* num_free_elements) {
    if (buf_pool == nullptr || num_free_elements == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *num_free_elements = buf_pool->store.free_count();
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_pool_set_element_alignment(doca_buf_pool* buf_pool,
                                                 size_t element_alignment) {
    if (buf_pool == nullptr || !std::has_single_bit(element_alignment)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (buf_pool->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    buf_pool->alignment = element_alignment;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_pool_get_element_alignment(const doca_buf_pool* buf_pool,
                                                 size_t* element_alignment) {
    if (buf_pool == nullptr || element_alignment == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *element_alignment = buf_pool->alignment;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_pool_set_user_data(doca_buf_pool* buf_pool, doca_data user_data) {
    if (buf_pool == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    buf_pool->user_data = user_data;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_pool_get_user_data(const doca_buf_pool* buf_pool, doca_data* user_data) {
    if (buf_pool == nullptr || user_data == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *user_data = buf_pool->user_data;
    return DOCA_SUCCESS;
}
