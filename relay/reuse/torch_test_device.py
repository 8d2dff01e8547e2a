# Named by TORCH_TEST_DEVICES: upstream's common_device_type runs this file with its own globals (that is where
# PrivateUse1TestBase and device_type_test_bases come from) and takes TEST_CLASS.
# mypy: ignore-errors
# ruff: noqa: F821
from relay.reuse.test_class import make_test_class

# With the built-in base in the list every class would be made twice. The others are asked for by configs whose devices
# list them; else PYTORCH_TESTING_DEVICE_ONLY_FOR leaves them out.
device_type_test_bases[:] = [
    make_test_class(base, base.device_type) for base in device_type_test_bases if base is not PrivateUse1TestBase
]
TEST_CLASS = make_test_class(PrivateUse1TestBase)
