"""NVIDIA GPUs, by a stand-in for NVML that is held to the real binding."""

import sys
from types import SimpleNamespace

import pytest

from emulator import fake_nvml
from emulator.fake_nvml import Fails, FakeGpu, FakeSlice, training
from whyidle.errors import InputError
from whyidle.machine.sources import _nvml_device, nvml
from whyidle.model.live.telemetry import Absent, Target, clock_reasons


@pytest.fixture
def cards(monkeypatch):
    """Puts cards into the machine; gives the reader, closed at the end with nothing left lent."""
    opened = []

    def put(*cards, **environ):
        made = fake_nvml.module(cards)
        monkeypatch.setitem(sys.modules, "pynvml", made)
        reader = nvml.open(Target(environ=environ))
        opened.append((reader, made))
        return reader

    yield put
    for reader, made in opened:
        reader.close()
        assert (made.fake.inits, made.fake.lent) == (0, 0)


def test_everything_of_a_card_that_trains(cards):
    values = cards(training()).read()
    assert values["busy_ratio@gpu0"] == 0.97
    assert values["memory_used_bytes@gpu0"] == 20 << 30
    assert values["clock_sm_mhz@gpu0"] == 1755
    assert values["clock_sm_max_mhz@gpu0"] == 1980
    assert clock_reasons(values["clock_reasons@gpu0"]) == ("software power cap",)
    assert values["power_w@gpu0"] == pytest.approx(612.345)
    assert values["power_limit_w@gpu0"] == 650
    assert values["energy_j@gpu0"] == pytest.approx(123_456_789.012)
    assert values["temperature_c@gpu0"] == 71
    assert values["held_by_power_s@gpu0"] == 5
    assert values["pcie_received_bytes@gpu0"] == 2 * 10**12
    assert (values["pcie_generation@gpu0"], values["pcie_lanes_max@gpu0"]) == (5, 16)
    assert values["processes@gpu0"] == 1
    assert values["process_memory_bytes@gpu0.pid4711"] == 18 << 30
    assert values["process_busy_ratio@gpu0.pid4711"] == 0.95


def test_what_hardly_changes_is_asked_seldom(cards):
    reader = cards(training())
    names = [set(reader.read()) for _ in range(21)]
    assert "power_limit_w@gpu0" in names[0] & names[20]
    assert not any("power_limit_w@gpu0" in one for one in names[1:20])
    assert "power_w@gpu0" in names[1]


def test_gpm_needs_a_tenth_of_a_second_between_samples(cards, monkeypatch):
    now = [10**9]
    monkeypatch.setattr(_nvml_device.time, "perf_counter_ns", lambda: now[0])
    reader = cards(training())
    assert reader.read()["sm_active_ratio@gpu0"] is None
    now[0] += _nvml_device.LEAST_NS
    values = reader.read()
    assert values["sm_active_ratio@gpu0"] == 0.815
    assert values["tensor_active_ratio@gpu0"] == 0.3725
    assert values["pcie_received_bytes_per_s@gpu0"] == 2000 * 2**20
    assert values["nvlink_sent_bytes_per_s@gpu0"] is None  # no such link: it fails alone


def test_without_gpm_it_says_so_and_how(cards):
    reader = cards(training(gpm=None, fields={197: Fails(3), 198: Fails(3)}))
    values = reader.read()
    assert "Hopper" in reader.missing["sm_active_ratio@gpu0"].how
    assert "sm_active_ratio@gpu0" not in values
    assert values["pcie_sent_bytes@gpu0"] is None
    assert values["pcie_sent_bytes_per_s@gpu0"] == 1000 * 1024  # the last resort
    assert "pcie_sent_bytes_per_s@gpu0" not in reader.missing


@pytest.mark.parametrize(
    ("call", "answer", "signal"),
    [
        ("PowerUsage", 0xFFFFFFFF, "power_w"),
        ("PowerUsage", -1, "power_w"),
        ("PowerUsage", float("nan"), "power_w"),
        ("TotalEnergyConsumption", 2**64 - 1, "energy_j"),
        ("TotalEnergyConsumption", 9_223_372_036_854_775_807, "energy_j"),
        ("Temperature", {0: 2147483632}, "temperature_c"),
        ("UtilizationRates", SimpleNamespace(gpu=4294967295, memory=40), "busy_ratio"),
        ("UtilizationRates", SimpleNamespace(gpu=255, memory=40), "busy_ratio"),
        ("ClockInfo", {1: "N/A", 2: 2619}, "clock_sm_mhz"),
    ],
)
def test_sentinels_are_none_and_alone(cards, call, answer, signal):
    values = cards(training(answers={call: answer})).read()
    assert values[f"{signal}@gpu0"] is None
    nothing = {name for name, value in values.items() if value is None}
    assert nothing - {f"{name}@gpu0" for name in _nvml_device.METRICS} <= {
        f"{signal}@gpu0",
        "xid_last@gpu0",
    }


@pytest.mark.parametrize("call", fake_nvml.ANSWERED)
@pytest.mark.parametrize("code", [3, 15, 999])
def test_each_call_fails_alone(cards, call, code):
    if call in ("Name", "UUID"):
        return
    whole = cards(training()).read()
    values = cards(training(answers={call: Fails(code)})).read()
    lost = {name for name, value in whole.items() if value is not None and values.get(name) is None}
    assert len(lost) <= 2 or call == "ComputeRunningProcesses", lost


def test_what_is_not_supported_is_asked_once_and_explained(cards):
    reader = cards(training(answers={"PowerUsage": Fails(3), "Temperature": Fails(999)}))
    assert reader.read()["power_w@gpu0"] is None
    assert "NotSupported" in reader.missing["power_w@gpu0"].reason
    again = reader.read()
    assert "power_w@gpu0" not in again
    assert again["temperature_c@gpu0"] is None  # it may answer the next time


def test_an_old_driver_knows_clock_reasons_by_their_old_name(cards):
    answers = {"CurrentClocksEventReasons": Fails(13), "CurrentClocksThrottleReasons": 0x61}
    bits = cards(training(answers=answers)).read()["clock_reasons@gpu0"]
    assert clock_reasons(bits) == (
        "idle",
        "software thermal slowdown",
        "hardware thermal slowdown",
    )
    assert clock_reasons(0x4001) == ("idle", "0x4000")


def test_an_old_binding_lacks_functions(cards, monkeypatch):
    made = fake_nvml.module([training()])
    for name in ("nvmlGpmQueryDeviceSupport", "nvmlMemory_v2", "nvmlEventSetCreate"):
        delattr(made, name)
    monkeypatch.setitem(sys.modules, "pynvml", made)
    reader = nvml.open(Target())
    values = reader.read()
    assert values["memory_total_bytes@gpu0"] == 80 << 30
    assert "xid_events@gpu0" not in values
    assert "sm_active_ratio@gpu0" in reader.missing
    reader.close()


def test_critical_errors_are_counted(cards):
    card = training(xids=[79, 48])
    reader = cards(card)
    values = reader.read()
    assert (values["xid_events@gpu0"], values["xid_last@gpu0"]) == (2, 48)
    values = reader.read()
    assert (values["xid_events@gpu0"], values["xid_last@gpu0"]) == (2, None)


def test_a_slice_gives_its_own_memory_and_the_cards_clocks(cards):
    one = FakeSlice("MIG-1111", 3, memory=(5 << 30, 10 << 30))
    card = training(slices=[None, one], split=True, answers={"UtilizationRates": Fails(3)})
    reader = cards(card, CUDA_VISIBLE_DEVICES="MIG-1111")
    values = reader.read()
    assert values["memory_total_bytes@gpu0.mig1"] == 10 << 30
    assert values["clock_sm_mhz@gpu0.mig1"] == 1755
    assert "whole card" in reader.missing["power_w@gpu0.mig1"].reason
    assert not {"power_w@gpu0.mig1", "busy_ratio@gpu0.mig1"} & set(values)
    assert reader.facts["uuid@gpu0.mig1"] == "MIG-1111"
    assert sys.modules["pynvml"].fake.instances[0] == 3


def test_the_jobs_devices_and_their_numbers(cards):
    gpus = [training(uuid=f"GPU-{index}") for index in range(4)]
    reader = cards(*gpus, CUDA_VISIBLE_DEVICES="3,1")
    assert {name.partition("@")[2][:4] for name in reader.read()} == {"gpu3", "gpu1"}
    assert reader.facts["cuda_ordinal@gpu3"] == "0"
    assert reader.facts["uuid@gpu1"] == "GPU-1"


def test_cards_of_different_make_are_all_read_and_in_doubt(cards):
    reader = cards(training(), training(uuid="GPU-b", name="GT 710"), CUDA_VISIBLE_DEVICES="0")
    assert "CUDA_DEVICE_ORDER" in reader.facts["cuda_order_doubt"]
    assert {"busy_ratio@gpu0", "busy_ratio@gpu1"} <= set(reader.read())
    assert "cuda_ordinal@gpu0" not in reader.facts


def test_a_lost_card_does_not_hide_the_others(cards):
    reader = cards(FakeGpu(lost=True), training(uuid="GPU-b"))
    assert reader.read()["busy_ratio@gpu1"] == 0.97


@pytest.mark.parametrize(("code", "word"), [(12, "LibraryNotFound"), (9, "DriverNotLoaded")])
def test_no_driver(monkeypatch, code, word):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.module(starts=code))
    told = nvml.probe()
    assert isinstance(told, Absent)
    assert word in told.reason
    assert "nvidia-smi" in told.how
    with pytest.raises(InputError, match=word):
        nvml.open(Target())


def test_no_binding(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.probe().how == "pip install 'whyidle[nvidia]'"


def test_no_gpu_for_this_job(monkeypatch):
    made = fake_nvml.module([training()])
    monkeypatch.setitem(sys.modules, "pynvml", made)
    told = nvml.probe(Target(environ={"CUDA_VISIBLE_DEVICES": ""}))
    assert isinstance(told, Absent)
    assert "CUDA_VISIBLE_DEVICES=" in told.reason
    assert made.fake.inits == 0


def test_the_stand_in_is_true_to_the_binding():
    real = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    made = fake_nvml.module()
    for name, value in fake_nvml.CONSTANTS.items():
        assert getattr(real, name) == value, name
    for name in vars(made).keys() - {"fake"}:
        if not name.startswith("__"):
            assert hasattr(real, name), name
    for name, code in fake_nvml.ERRORS.items():
        assert type(real.NVMLError(code)).__name__ == f"NVMLError_{name}"
    fields = [name for name, _ in real.c_nvmlGpmMetric_t._fields_]
    assert [name for name, _ in fake_nvml.c_nvmlGpmMetric_t._fields_] == fields[:3]


def busy(time, **shares):
    """Samples as the driver gives them: of processes that were busy only."""
    return [
        SimpleNamespace(pid=int(pid[1:]), timeStamp=time, smUtil=share)
        for pid, share in shares.items()
    ]


def test_a_process_of_which_the_driver_says_nothing_was_not_busy(cards):
    card = training()
    running = [SimpleNamespace(pid=pid, usedGpuMemory=1 << 30) for pid in (7, 8)]
    card.answers["ComputeRunningProcesses"] = running
    reader, told = cards(card), []
    nobody, refused = Fails(6), Fails(4)
    answers = [nobody, busy(5, p7=90, p8=60), busy(9, p7=90), busy(9, p7=90), nobody, refused]
    for answer in answers:
        card.answers["ProcessUtilization"] = answer
        values = reader.read()
        told.append(tuple(values[f"process_busy_ratio@gpu0.pid{pid}"] for pid in (7, 8)))
    unknown = (None, None)
    # nobody yet told of, both, one, the same sample again, nobody, no permission
    assert told == [unknown, (0.9, 0.6), (0.9, 0.0), unknown, (0.0, 0.0), unknown]


def test_ids_of_another_namespace_say_nothing_of_who_is_busy(cards):
    card = training()
    reader = cards(card)
    for answer in (busy(5, p900=90), Fails(6)):
        card.answers["ProcessUtilization"] = answer
        assert reader.read()["process_busy_ratio@gpu0.pid4711"] is None
