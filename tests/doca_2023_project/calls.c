/*
 * The calls that have one name and two forms, of 2023 and of today, beside each other in one program: in C and,
 * as calls.cpp, in C++, without a warning. Each does what its form says.
 */
#include <stdio.h>
#include <string.h>

#include <doca_buf_inventory.h>
#include <doca_ctx.h>
#include <doca_dev.h>
#include <doca_dma.h>
#include <doca_mmap.h>

static int failures;

static void expect(int condition, const char *what)
{
    if (!condition) {
        printf("failed: %s\n", what);
        ++failures;
    }
}

static uint64_t data_of(struct doca_mmap *mmap)
{
    union doca_data data;

    memset(&data, 0, sizeof(data));
    expect(doca_mmap_get_user_data(mmap, &data) == DOCA_SUCCESS, "user data");
    return data.u64;
}

static void maps(void)
{
    struct doca_mmap *mmap;
    union doca_data data;
    const union doca_data *constant = &data;
    char text[] = "a name";
    const char *name = text;

    data.u64 = 7;
    expect(doca_mmap_create(&mmap) == DOCA_SUCCESS, "today's map");
    expect(doca_mmap_start(mmap) == DOCA_ERROR_BAD_STATE, "today's map needs a range");
    doca_mmap_destroy(mmap);
    expect(doca_mmap_create(NULL, &mmap) == DOCA_SUCCESS, "a map without user data");
    expect(doca_mmap_start(mmap) == DOCA_SUCCESS, "a map of 2022 needs no range");
    doca_mmap_destroy(mmap);
    expect(doca_mmap_create(&data, &mmap) == DOCA_SUCCESS && data_of(mmap) == 7, "user data kept");
    doca_mmap_destroy(mmap);
    expect(doca_mmap_create(constant, &mmap) == DOCA_SUCCESS && data_of(mmap) == 7, "constant data");
    doca_mmap_destroy(mmap);
    expect(doca_mmap_create("a name", &mmap) == DOCA_SUCCESS && data_of(mmap) == 0, "a literal name");
    doca_mmap_destroy(mmap);
    expect(doca_mmap_create(name, &mmap) == DOCA_SUCCESS && data_of(mmap) == 0, "a name");
    doca_mmap_destroy(mmap);
    expect(doca_mmap_create(text, &mmap) == DOCA_SUCCESS && data_of(mmap) == 0, "a name in room");
    doca_mmap_destroy(mmap);
}

static void imports(struct doca_dev *dev)
{
    const char nonsense[100] = "";
    struct doca_mmap *mmap;
    union doca_data data;

    data.u64 = 7;
    expect(doca_mmap_create_from_export(NULL, nonsense, sizeof(nonsense), dev, &mmap) ==
               DOCA_ERROR_INVALID_VALUE, "an import without user data");
    expect(doca_mmap_create_from_export(&data, nonsense, sizeof(nonsense), dev, &mmap) ==
               DOCA_ERROR_INVALID_VALUE, "an import with user data");
    expect(doca_mmap_create_from_export("a name", (const uint8_t *)nonsense, sizeof(nonsense), dev,
                                        &mmap) == DOCA_ERROR_INVALID_VALUE, "an import with a name");
}

static void exports(struct doca_dev *dev)
{
    struct doca_mmap *mmap;
    size_t length;
    char *text;
    uint8_t *bytes;
    void *anything;

    expect(doca_mmap_create(NULL, &mmap) == DOCA_SUCCESS, "a map to export");
    expect(doca_mmap_export(mmap, dev, (void **)&text, &length) == DOCA_ERROR_NOT_PERMITTED,
           "an export of 1.5");
    expect(doca_mmap_export(mmap, dev, &bytes, &length) == DOCA_ERROR_NOT_PERMITTED,
           "an export of 1.3");
    expect(doca_mmap_export(mmap, dev, &anything, &length) == DOCA_ERROR_NOT_PERMITTED,
           "an export");
    doca_mmap_destroy(mmap);
}

static void inventories(void)
{
    struct doca_buf_inventory *inventory;
    uint32_t count = 0;

    expect(doca_buf_inventory_create(3, &inventory) == DOCA_SUCCESS, "today's inventory");
    doca_buf_inventory_destroy(inventory);
    expect(doca_buf_inventory_create(NULL, 4, DOCA_BUF_EXTENSION_NONE, &inventory) == DOCA_SUCCESS,
           "an inventory of 2023");
    doca_buf_inventory_get_num_elements(inventory, &count);
    expect(count == 4, "its elements");
    doca_buf_inventory_destroy(inventory);
    expect(doca_buf_inventory_create("a name", 4, DOCA_BUF_EXTENSION_LINKED_LIST, &inventory) ==
               DOCA_SUCCESS, "an inventory with a name");
    doca_buf_inventory_destroy(inventory);
}

static void engines(struct doca_dev *dev)
{
    /* What is no call is the function of today. */
    doca_error_t (*create)(struct doca_dev *, struct doca_dma **) = &doca_dma_create;
    doca_error_t (*create_map)(struct doca_mmap **) = doca_mmap_create;
    struct {
        struct doca_dma *dma;
    } state, *pointer = &state;
    struct doca_mmap *mmap;
    uint8_t jobs = 0;

    expect(doca_dma_create(dev, &state.dma) == DOCA_SUCCESS, "today's engine");
    doca_ctx_get_event_driven_supported(doca_dma_as_ctx(state.dma), &jobs);
    expect(jobs == 0, "it has tasks");
    doca_dma_destroy(state.dma);
    expect(doca_dma_create(&(pointer->dma)) == DOCA_SUCCESS, "an engine of 2023");
    doca_ctx_get_event_driven_supported(doca_dma_as_ctx(state.dma), &jobs);
    expect(jobs == 1, "it has jobs");
    doca_dma_destroy(state.dma);
    expect(create(dev, &state.dma) == DOCA_SUCCESS, "by its address");
    doca_dma_destroy(state.dma);
    expect(create_map(&mmap) == DOCA_SUCCESS, "a map by its function's address");
    doca_mmap_destroy(mmap);
}

int main(void)
{
    struct doca_devinfo **list;
    struct doca_dev *dev;
    uint32_t count = 0;

    if (doca_devinfo_list_create(&list, &count) != DOCA_SUCCESS || count == 0 ||
        doca_dev_open(list[0], &dev) != DOCA_SUCCESS) {
        printf("no device\n");
        return 1;
    }
    doca_devinfo_list_destroy(list);
    maps();
    imports(dev);
    exports(dev);
    inventories();
    engines(dev);
    expect(doca_dev_close(dev) == DOCA_SUCCESS, "the device is not in use");
    if (failures == 0)
        printf("both forms\n");
    return failures != 0;
}
