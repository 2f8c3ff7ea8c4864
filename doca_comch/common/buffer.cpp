#include "doca_comch/common/buffer.hpp"

#include <limits>

#include "doca_comch/common/status.hpp"

using comch::doca::refuse;

doca_error_t doca_buf_inc_refcount(doca_buf* buf, uint16_t* refcount) {
    if (buf == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (buf->references == 0) {
        return DOCA_ERROR_BAD_STATE;
    }
    if (buf->references == std::numeric_limits<std::uint16_t>::max()) {
        return DOCA_ERROR_TOO_BIG;
    }
    if (refcount != nullptr) {
        *refcount = buf->references;
    }
    ++buf->references;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_dec_refcount(doca_buf* buf, uint16_t* refcount) {
    if (buf == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (buf->references == 0) {
        return refuse(DOCA_ERROR_BAD_STATE, "the buffer has been given back already");
    }
    if (buf->follows) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "the buffer is inside a list: give the list's head back, or unchain it");
    }
    if (refcount != nullptr) {
        *refcount = buf->references;
    }
    if (--buf->references != 0) {
        return DOCA_SUCCESS;
    }
    // The last reference to a head is one to the whole list.
    doca_buf* next = buf->next;
    buf->let_go();
    while (next != nullptr) {
        doca_buf& element = *next;
        next = element.next;
        element.follows = false;
        element.next = nullptr;
        if (--element.references == 0) {
            element.let_go();
        }
    }
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_get_refcount(const doca_buf* buf, uint16_t* refcount) {
    if (buf == nullptr || refcount == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *refcount = buf->references;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_get_len(const doca_buf* buf, size_t* len) {
    if (buf == nullptr || len == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *len = buf->length;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_get_head(const doca_buf* buf, void** head) {
    if (buf == nullptr || head == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *head = buf->head;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_get_data_len(const doca_buf* buf, size_t* data_len) {
    if (buf == nullptr || data_len == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *data_len = buf->data_length;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_get_data(const doca_buf* buf, void** data) {
    if (buf == nullptr || data == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *data = buf->data;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_set_data(doca_buf* buf, void* data, size_t data_len) {
    return buf != nullptr && data != nullptr && buf->set_data(data, data_len)
               ? DOCA_SUCCESS
               : DOCA_ERROR_INVALID_VALUE;
}

doca_error_t doca_buf_set_data_len(doca_buf* buf, size_t data_len) {
    return buf != nullptr && buf->set_data(buf->data, data_len) ? DOCA_SUCCESS
                                                                : DOCA_ERROR_INVALID_VALUE;
}

doca_error_t doca_buf_reset_data_len(doca_buf* buf) {
    if (buf == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    buf->data_length = 0;
    return DOCA_SUCCESS;
}

// ---- lists --------------------------------------------------------------------------------------

namespace {

doca_buf* last_of(doca_buf* buf) {
    while (buf->next != nullptr) {
        buf = buf->next;
    }
    return buf;
}

/// In use, and not behind another one.
bool is_head(const doca_buf* buf) {
    return buf != nullptr && buf->references != 0 && !buf->follows;
}

doca_error_t chain(doca_buf& tail, doca_buf& head) {
    if (head.references != 1) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "cannot chain the lists: there are more references to the second one");
    }
    tail.next = &head;
    head.follows = true;
    return DOCA_SUCCESS;
}

} // namespace

doca_error_t doca_buf_get_list_len(const doca_buf* buf, uint32_t* num_elements) {
    if (buf == nullptr || num_elements == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *num_elements = 0;
    for (const doca_buf* at = buf; at != nullptr; at = at->next) {
        ++*num_elements;
    }
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_get_next_in_list(doca_buf* buf, doca_buf** next_buf) {
    if (buf == nullptr || next_buf == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *next_buf = buf->next;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_get_last_in_list(doca_buf* buf, doca_buf** last_buf) {
    if (buf == nullptr || last_buf == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *last_buf = last_of(buf);
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_is_last_in_list(const doca_buf* buf, uint8_t* is_last) {
    if (buf == nullptr || is_last == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *is_last = buf->next == nullptr ? 1 : 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_is_first_in_list(const doca_buf* buf, uint8_t* is_first) {
    if (buf == nullptr || is_first == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *is_first = buf->follows ? 0 : 1;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_is_in_list(const doca_buf* buf, uint8_t* is_in_list) {
    if (buf == nullptr || is_in_list == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *is_in_list = buf->chained() ? 1 : 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_buf_chain_list(doca_buf* list1, doca_buf* list2) {
    if (!is_head(list1) || !is_head(list2) || list1 == list2) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return chain(*last_of(list1), *list2);
}

doca_error_t doca_buf_chain_list_tail(doca_buf* list1, doca_buf* list1_tail, doca_buf* list2) {
    if (!is_head(list1) || !is_head(list2) || list1 == list2 || last_of(list1) != list1_tail) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return chain(*list1_tail, *list2);
}

doca_error_t doca_buf_unchain_list(doca_buf* list1, doca_buf* list2) {
    if (!is_head(list1) || list2 == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    for (doca_buf* at = list1; at->next != nullptr; at = at->next) {
        if (at->next == list2) {
            at->next = nullptr;
            list2->follows = false;
            return DOCA_SUCCESS;
        }
    }
    return refuse(DOCA_ERROR_INVALID_VALUE, "the buffer is not an element of the list");
}
