# Named by TORCH_TEST_DEVICES: upstream's common_device_type runs this file with its own globals (that is where
# PrivateUse1TestBase and device_type_test_bases come from) and takes TEST_CLASS.
# mypy: ignore-errors
# ruff: noqa: F821
from relay.reuse.test_class import make_test_class

# with the built-in base in the list every class would be made twice
device_type_test_bases[:] = [base for base in device_type_test_bases if base is not PrivateUse1TestBase]
TEST_CLASS = make_test_class(PrivateUse1TestBase)
