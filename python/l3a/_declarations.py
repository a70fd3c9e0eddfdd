"""What the headers in include/l3a declare: enums, structs, callbacks and functions. Made by tools/make_python.py; do not edit."""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int8, c_int64, c_size_t, c_uint8,
                    c_uint64, c_void_p)
from enum import IntEnum
from typing import Any, Dict, List, Tuple

VERSION_NUMBER = 1700


class Status(IntEnum):
    """l3a_status"""
    OK = 0
    ERROR_ARGUMENT = 1
    ERROR_OPTION = 2
    ERROR_MEMORY = 3
    ERROR_NOT_FOUND = 4
    ERROR_IO = 5
    ERROR_FORMAT = 6
    ERROR_TRUNCATED = 7
    ERROR_CHECKSUM = 8
    ERROR_VERSION = 9
    ERROR_DATA = 10
    ERROR_CLASS = 11
    ERROR_MISMATCH = 12
    ERROR_NUMERIC = 13
    ERROR_STATE = 14
    ERROR_CANCELLED = 15
    ERROR_EXISTS = 16
    ERROR_DEVICE = 17
    ERROR_FULL = 18
    ERROR_METHOD = 19


class EventKind(IntEnum):
    """l3a_event_kind"""
    PROGRESS = 0
    WARNING = 1
    TIMING = 2
    RESULT = 3
    NOTE = 4


class SumType(IntEnum):
    """l3a_sum_type"""
    FLOAT64 = 0
    UINT64 = 1


class PackType(IntEnum):
    """l3a_pack_type"""
    FLOAT16 = 0
    INT8 = 1


class OptionType(IntEnum):
    """l3a_option_type"""
    INTEGER = 0
    NUMBER = 1
    CHOICE = 2


class Filter(IntEnum):
    """l3a_filter"""
    BILINEAR = 0
    BICUBIC = 1


class CropRule(IntEnum):
    """l3a_crop_rule"""
    SQUASHED = 1
    DOWN = 2


class Pool(IntEnum):
    """l3a_pool"""
    DEFAULT = 0
    CLS = 1
    MEAN = 2
    CLS_MEAN = 3
    MAX = 4
    MAP = 5
    PROJECTION = 6


class Activation(IntEnum):
    """l3a_activation"""
    DEFAULT = 0
    GELU = 1
    QUICK_GELU = 2
    TANH_GELU = 3


class NetworkPrecision(IntEnum):
    """l3a_network_precision"""
    FLOAT32 = 0
    BF16 = 1
    FLOAT16 = 2
    USUAL = 3


class LibraryState(IntEnum):
    """l3a_library_state"""
    WAITING = 0
    DONE = 1
    FAILED = 2
    OTHER = 3


class Number(IntEnum):
    """l3a_number"""
    FLOAT32 = 0
    FLOAT64 = 1
    INT8 = 2
    UINT8 = 3
    INT64 = 4


class l3a_event(Structure):
    _fields_ = [
        ("kind", c_int),
        ("stage", c_char_p),
        ("text", c_char_p),
        ("done", c_uint64),
        ("total", c_uint64),
        ("seconds", c_double),
    ]


l3a_event_callback = CFUNCTYPE(c_int, POINTER(l3a_event), c_void_p)
l3a_sum_callback = CFUNCTYPE(c_int, c_void_p, c_size_t, c_int, c_void_p)
l3a_tags_callback = CFUNCTYPE(c_int, c_size_t, c_int, c_void_p, c_void_p)
l3a_taught_callback = CFUNCTYPE(c_int, c_char_p, c_uint64, c_void_p, c_int, c_void_p)
l3a_lesson_callback = CFUNCTYPE(c_int, c_char_p, c_uint64, c_void_p, c_int, c_int, c_void_p)
l3a_judged_callback = CFUNCTYPE(c_int, c_char_p, c_int, c_void_p)
l3a_folder_callback = CFUNCTYPE(c_int, c_char_p, c_uint64, c_uint64, c_void_p)
l3a_train_epoch_callback = CFUNCTYPE(None, c_void_p, c_void_p)
l3a_method_create = CFUNCTYPE(c_int, c_void_p, c_uint64, c_size_t, c_void_p)
l3a_method_room = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
l3a_method_learn = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t)
l3a_method_score = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)
l3a_method_thresholds = CFUNCTYPE(c_int, c_void_p, c_void_p)
l3a_method_save = CFUNCTYPE(c_int, c_void_p, c_void_p)
l3a_method_load = CFUNCTYPE(c_int, c_void_p, c_void_p)
l3a_method_free = CFUNCTYPE(None, c_void_p)
l3a_method_explain = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)


class l3a_context_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("threads", c_int),
        ("memory_limit", c_uint64),
        ("on_event", l3a_event_callback),
        ("event_user", c_void_p),
        ("allocate", c_void_p),
        ("release", c_void_p),
        ("memory_user", c_void_p),
        ("sum", l3a_sum_callback),
        ("sum_user", c_void_p),
        ("process", c_size_t),
        ("processes", c_size_t),
        ("device", c_char_p),
        ("device_memory_limit", c_uint64),
        ("divide", c_uint64),
        ("lead_threads", c_uint64),
    ]


class l3a_tagger_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("backbone", c_char_p),
        ("backbone_options", c_void_p),
        ("picture_options", c_void_p),
        ("batch", c_size_t),
        ("views", c_size_t),
        ("commit", c_size_t),
    ]


class l3a_judgement(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("tags", c_void_p),
        ("tag_count", c_size_t),
        ("absent", c_void_p),
        ("absent_count", c_size_t),
        ("judged", c_void_p),
        ("judged_count", c_size_t),
        ("only", c_int),
    ]


class l3a_lesson_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("strict", c_int),
        ("no_history", c_int),
        ("instead", c_int),
        ("was", c_void_p),
        ("most_new_classes", c_size_t),
        ("most_classes", c_size_t),
    ]


class l3a_teach_report(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("images", c_uint64),
        ("new_classes", c_size_t),
        ("parts", c_size_t),
        ("gamma", c_double),
        ("exact", c_int),
    ]


class l3a_repair_report(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("bytes", c_uint64),
        ("applied", c_uint64),
        ("lost", c_uint64),
    ]


class l3a_history_entry(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("number", c_uint64),
        ("seconds", c_int64),
        ("kind", c_char_p),
        ("pictures", c_size_t),
        ("taken_back", c_size_t),
        ("classes", c_size_t),
        ("new_classes", c_size_t),
        ("old_name", c_char_p),
        ("new_name", c_char_p),
        ("can_undo", c_int),
        ("id", c_uint64),
    ]


class l3a_pack_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("type", c_int),
        ("with_backbone", c_int),
        ("backbone", c_char_p),
        ("half_backbone", c_int),
        ("features", c_void_p),
    ]


class l3a_pack_report(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("bytes", c_uint64),
        ("rows", c_uint64),
        ("largest_change", c_double),
        ("changed", c_uint64),
    ]


class l3a_option_info(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_int),
        ("low", c_double),
        ("high", c_double),
        ("low_open", c_int),
        ("high_open", c_int),
        ("choices", c_char_p),
        ("fallback", c_char_p),
        ("help", c_char_p),
        ("group", c_char_p),
        ("word", c_char_p),
    ]


class l3a_save_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("half", c_uint64),
    ]


class l3a_metrics(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("mean_ap", c_double),
        ("class_precision", c_double),
        ("class_recall", c_double),
        ("class_f1", c_double),
        ("overall_precision", c_double),
        ("overall_recall", c_double),
        ("overall_f1", c_double),
        ("images", c_size_t),
        ("left_out", c_size_t),
    ]


class l3a_evaluate_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("all_images", c_int),
    ]


class l3a_phase_info(Structure):
    _fields_ = [
        ("first", c_size_t),
        ("last", c_size_t),
        ("images", c_uint64),
        ("skipped", c_uint64),
        ("pseudo_labels", c_uint64),
        ("eta", c_double),
        ("recursive", c_int),
    ]


class l3a_part_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("images", c_uint64),
        ("phases", c_size_t),
        ("judged", c_size_t),
    ]


class l3a_unlabelled_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("most", c_uint64),
        ("drawn_from", c_uint64),
        ("checksums", c_void_p),
    ]


class l3a_unlabelled_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("images", c_uint64),
        ("drawn_from", c_uint64),
        ("weight", c_double),
    ]


class l3a_plan(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("memory", c_uint64),
        ("file", c_uint64),
        ("phase", c_uint64),
        ("row_flops", c_double),
        ("score_flops", c_double),
        ("solve_flops", c_double),
        ("device_memory", c_uint64),
        ("spilled_phases", c_uint64),
    ]


class l3a_picture_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pixel_limit", c_uint64),
        ("orient", c_int),
    ]


class l3a_picture(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("width", c_size_t),
        ("height", c_size_t),
        ("pixels", c_void_p),
    ]


class l3a_loader_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("width", c_size_t),
        ("height", c_size_t),
        ("filter", c_int),
        ("mean", c_float * 3),
        ("deviation", c_float * 3),
        ("picture", c_void_p),
        ("ahead", c_size_t),
        ("views", c_size_t),
        ("crop", c_double),
        ("crop_rules", c_int),
    ]


class l3a_sidecar_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("remove", c_void_p),
        ("remove_count", c_size_t),
        ("short_name", c_int),
    ]


class l3a_dataset_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("ignore_difficult", c_int),
    ]


class l3a_backbone_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pool", c_int),
        ("side", c_size_t),
        ("mean", c_float * 3),
        ("deviation", c_float * 3),
        ("filter", c_int),
        ("heads", c_size_t),
        ("layer", c_size_t),
        ("activation", c_int),
        ("precision", c_int),
        ("epsilon", c_double),
        ("crop", c_double),
        ("published", c_int),
        ("stride_first", c_int),
        ("offset", c_int),
        ("crop_rules", c_int),
    ]


class l3a_backbone_info(Structure):
    _fields_ = [
        ("family", c_char_p),
        ("name", c_char * 64),
        ("size", c_size_t),
        ("width", c_size_t),
        ("parameters", c_uint64),
        ("flops", c_double),
        ("mean", c_float * 3),
        ("deviation", c_float * 3),
        ("filter", c_int),
        ("pool", c_char_p),
        ("preprocess", c_char * 128),
        ("sha256", c_char * 65),
        ("engine", c_char_p),
        ("heads", c_size_t),
        ("layer", c_size_t),
        ("activation", c_char_p),
        ("epsilon", c_double),
        ("crop", c_double),
        ("crop_rules", c_int),
        ("precision", c_int),
        ("computed", c_int),
        ("network", c_char * 96),
        ("decided", c_char * 256),
        ("skipped", c_char * 256),
        ("batch", c_size_t),
    ]


class l3a_extract_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("half", c_int),
        ("strict", c_int),
        ("picture", c_void_p),
        ("views", c_size_t),
        ("shard", c_size_t),
        ("shards", c_size_t),
    ]


class l3a_extract_report(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("rows", c_size_t),
        ("bad", c_size_t),
        ("resumed", c_size_t),
        ("seconds", c_double),
        ("cached", c_size_t),
    ]


class l3a_tensor_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("type", c_char_p),
        ("rank", c_size_t),
        ("shape", c_uint64 * 8),
        ("bytes", c_uint64),
        ("verified", c_int),
    ]


class l3a_machine(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("processor", c_char * 96),
        ("instructions", c_char * 96),
        ("blas", c_char * 160),
        ("better_kernels", c_char * 32),
        ("compiler", c_char * 64),
        ("processors", c_int),
        ("threads", c_int),
        ("memory_total", c_uint64),
        ("memory_available", c_uint64),
    ]


class l3a_draw_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("seed", c_uint64),
        ("training", c_size_t),
        ("test", c_size_t),
        ("always", c_char_p),
    ]


class l3a_library_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("index", c_char_p),
        ("existing", c_int),
        ("check", c_int),
        ("keep", c_int),
        ("folder", c_char_p),
    ]


class l3a_scan_report(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pictures", c_uint64),
        ("added", c_uint64),
        ("changed", c_uint64),
        ("gone", c_uint64),
        ("away", c_uint64),
        ("unreadable", c_uint64),
    ]


class l3a_look_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("most", c_uint64),
        ("shard", c_size_t),
        ("shards", c_size_t),
        ("newest", c_int),
        ("no_heif", c_int),
    ]


class l3a_look_report(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("looked", c_uint64),
        ("known", c_uint64),
        ("moved", c_uint64),
        ("copies", c_uint64),
        ("failed", c_uint64),
        ("waiting", c_uint64),
    ]


class l3a_said(Structure):
    _fields_ = [
        ("checksum", c_uint64),
        ("labels", c_void_p),
    ]


class l3a_library_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pictures", c_uint64),
        ("done", c_uint64),
        ("waiting", c_uint64),
        ("failed", c_uint64),
        ("others", c_uint64),
        ("scored", c_uint64),
        ("said", c_uint64),
        ("untagged", c_uint64),
        ("unsure", c_uint64),
        ("change", c_uint64),
        ("bytes", c_uint64),
        ("views", c_size_t),
        ("tagged", c_uint64),
    ]


class l3a_find_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("where", c_char_p),
        ("word", c_char_p),
        ("like", c_void_p),
        ("like_count", c_size_t),
        ("like_features", c_void_p),
        ("like_rows", c_size_t),
        ("sort", c_char_p),
        ("most", c_uint64),
    ]


class l3a_library_picture(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("id", c_uint64),
        ("path", c_char_p),
        ("state", c_int),
        ("problem", c_char_p),
        ("bytes", c_uint64),
        ("modified", c_int64),
        ("taken", c_int64),
        ("checksum", c_uint64),
        ("copies", c_uint64),
    ]


class l3a_cache_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("folder", c_char_p),
        ("limit", c_uint64),
        ("look_only", c_uint64),
    ]


class l3a_train_recipe(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("help", c_char_p),
    ]


class l3a_train_epoch(Structure):
    _fields_ = [
        ("epoch", c_size_t),
        ("epochs", c_size_t),
        ("loss", c_double),
        ("mean_ap", c_double),
        ("seconds", c_double),
        ("best", c_int),
        ("resumed", c_int),
    ]


class l3a_train_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("recipe", c_char_p),
        ("backbone", c_void_p),
        ("picture", c_void_p),
        ("trained", c_char_p),
        ("classes", c_void_p),
        ("class_count", c_size_t),
        ("seed", c_uint64),
        ("epochs", c_size_t),
        ("batch", c_size_t),
        ("rate", c_double),
        ("head_rate", c_double),
        ("schedule", c_char_p),
        ("optimiser", c_char_p),
        ("momentum", c_double),
        ("decay", c_double),
        ("clip", c_double),
        ("loss", c_char_p),
        ("least_area", c_double),
        ("most_area", c_double),
        ("flip", c_int),
        ("cutout", c_double),
        ("validation_share", c_double),
        ("keep_last", c_int),
        ("memory", c_uint64),
        ("state", c_char_p),
        ("save_seconds", c_double),
        ("resume", c_int),
        ("command", c_char_p),
        ("on_epoch", l3a_train_epoch_callback),
        ("epoch_user", c_void_p),
    ]


class l3a_train_plan(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("memory", c_uint64),
        ("recomputes", c_int),
        ("parameters", c_uint64),
        ("trained", c_uint64),
        ("pictures", c_size_t),
        ("held", c_size_t),
        ("classes", c_size_t),
        ("steps", c_uint64),
        ("shown", c_uint64),
        ("settings", c_char * 512),
    ]


class l3a_train_report(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("epochs", c_size_t),
        ("resumed", c_size_t),
        ("kept", c_size_t),
        ("steps", c_uint64),
        ("mean_ap", c_double),
        ("loss", c_double),
        ("seconds", c_double),
        ("speed", c_double),
        ("waited", c_double),
        ("recomputed", c_int),
    ]


class l3a_method_info(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("help", c_char_p),
        ("source", c_char_p),
        ("stores", c_char_p),
        ("runs", c_int),
    ]


class l3a_state_array(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_int),
        ("rank", c_size_t),
        ("shape", c_uint64 * 8),
        ("data", c_void_p),
    ]


class l3a_method_phase(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("classes", c_void_p),
        ("first", c_size_t),
        ("last", c_size_t),
        ("phase", c_size_t),
        ("phases", c_size_t),
        ("images", c_uint64),
        ("rows", c_size_t),
        ("width", c_size_t),
    ]


class l3a_method(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("parameters", c_char_p),
        ("at_once", c_int),
        ("user", c_void_p),
        ("create", l3a_method_create),
        ("learn", l3a_method_learn),
        ("learn_block", l3a_method_learn),
        ("score", l3a_method_score),
        ("thresholds", l3a_method_thresholds),
        ("save", l3a_method_save),
        ("load", l3a_method_load),
        ("free", l3a_method_free),
        ("explain", l3a_method_explain),
        ("room", l3a_method_room),
    ]


class l3a_axis(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("values", c_void_p),
        ("count", c_size_t),
    ]


class l3a_backbone_training(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("checkpoint", c_char_p),
        ("backbone", c_void_p),
        ("picture", c_void_p),
        ("train", c_void_p),
        ("test", c_void_p),
    ]


class l3a_experiment_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("train", c_void_p),
        ("test", c_void_p),
        ("protocol", c_char_p),
        ("class_order", c_char_p),
        ("methods", c_void_p),
        ("method_count", c_size_t),
        ("seeds", c_void_p),
        ("seed_count", c_size_t),
        ("settings", c_void_p),
        ("axes", c_void_p),
        ("axis_count", c_size_t),
        ("grid", c_int),
        ("folder", c_char_p),
        ("resume", c_int),
        ("command", c_char_p),
        ("directory", c_char_p),
        ("no_report", c_int),
        ("pictures", c_char_p),
        ("class_orders", c_void_p),
        ("class_order_count", c_size_t),
        ("own_methods", c_void_p),
        ("own_method_count", c_size_t),
        ("adapted", c_char_p),
        ("training", c_void_p),
    ]


class l3a_workload(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("classes", c_size_t),
        ("phases", c_size_t),
        ("points", c_size_t),
        ("seeds", c_size_t),
        ("passes", c_size_t),
        ("flops", c_double),
        ("memory", c_uint64),
        ("file", c_uint64),
        ("device_memory", c_uint64),
        ("parts", c_uint64),
        ("spilled", c_uint64),
        ("orders", c_size_t),
    ]


class l3a_protocol_phase(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("first", c_size_t),
        ("last", c_size_t),
        ("train_images", c_uint64),
        ("unlabelled_images", c_uint64),
        ("test_images", c_uint64),
    ]


class l3a_preset(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("help", c_char_p),
        ("methods", c_char_p),
        ("seeds", c_char_p),
        ("setting", c_char_p),
        ("values", c_char_p),
    ]


class l3a_result(Structure):
    _fields_ = [
        ("method", c_char_p),
        ("seed", c_uint64),
        ("phase", c_size_t),
        ("first", c_size_t),
        ("last", c_size_t),
        ("train_images", c_uint64),
        ("test_images", c_uint64),
        ("pseudo_labels", c_uint64),
        ("seconds", c_double),
        ("base_map", c_double),
        ("new_map", c_double),
        ("metrics", l3a_metrics),
    ]


class l3a_class_tally(Structure):
    _fields_ = [
        ("images", c_uint64),
        ("weight", c_double),
        ("pseudo", c_uint64),
        ("right", c_uint64),
        ("present", c_uint64),
    ]


class l3a_summary(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("method", c_char_p),
        ("seeds", c_size_t),
        ("average_map", c_double * 2),
        ("last_map", c_double * 2),
        ("last_class_f1", c_double * 2),
        ("last_overall_f1", c_double * 2),
        ("forgetting", c_double * 2),
        ("base_map", c_double * 2),
        ("new_map", c_double * 2),
        ("orders", c_size_t),
    ]


class l3a_difference(Structure):
    _fields_ = [
        ("method", c_char_p),
        ("reference", c_char_p),
        ("reference_index", c_size_t),
        ("pairs", c_size_t),
        ("difference", c_double),
        ("low", c_double),
        ("high", c_double),
        ("p", c_double),
        ("adjusted_p", c_double),
        ("interval", c_char_p),
        ("test", c_char_p),
        ("significant", c_int),
        ("best", c_int),
    ]


class l3a_published(Structure):
    _fields_ = [
        ("table", c_int),
        ("data", c_char_p),
        ("protocol", c_char_p),
        ("method", c_char_p),
        ("memory", c_char_p),
        ("backbone", c_char_p),
        ("average_map", c_double),
        ("last_map", c_double),
        ("last_class_f1", c_double),
        ("last_overall_f1", c_double),
    ]


class l3a_report_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("title", c_char_p),
        ("pictures", c_char_p),
        ("with", c_void_p),
        ("with_count", c_size_t),
    ]


class l3a_adapt_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("how", c_char_p),
        ("protocol", c_char_p),
        ("class_order", c_char_p),
        ("training", c_void_p),
        ("keep", c_int),
    ]


class l3a_train_page(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("title", c_char_p),
        ("plan", c_void_p),
        ("report", c_void_p),
        ("command", c_char_p),
        ("done", c_size_t),
        ("losses", c_void_p),
        ("mean_aps", c_void_p),
        ("seconds", c_void_p),
    ]


FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "l3a_version": (c_char_p, []),
    "l3a_version_number": (c_int, []),
    "l3a_citation": (c_char_p, []),
    "l3a_status_name": (c_char_p, [c_int]),
    "l3a_context_create": (c_int, [c_void_p, c_void_p]),
    "l3a_context_free": (None, [c_void_p]),
    "l3a_context_threads": (c_int, [c_void_p]),
    "l3a_context_device": (c_char_p, [c_void_p]),
    "l3a_error_text": (c_char_p, [c_void_p]),
    "l3a_error_hint": (c_char_p, [c_void_p]),
    "l3a_device_describe": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "l3a_tagger_open": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "l3a_tagger_reload": (c_int, [c_void_p]),
    "l3a_tagger_model": (c_void_p, [c_void_p]),
    "l3a_tagger_backbone": (c_char_p, [c_void_p]),
    "l3a_tagger_batch": (c_size_t, [c_void_p]),
    "l3a_tagger_free": (None, [c_void_p]),
    "l3a_reader_create": (c_int, [c_void_p, c_void_p]),
    "l3a_reader_free": (None, [c_void_p]),
    "l3a_reader_error_text": (c_char_p, [c_void_p]),
    "l3a_reader_error_hint": (c_char_p, [c_void_p]),
    "l3a_reader_tag_file": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_reader_tag_bytes": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, c_void_p]),
    "l3a_reader_tag_files": (c_int, [c_void_p, c_void_p, c_size_t, l3a_tags_callback, c_void_p]),
    "l3a_tags_count": (c_size_t, [c_void_p]),
    "l3a_tags_name": (c_char_p, [c_void_p, c_size_t]),
    "l3a_tags_class": (c_size_t, [c_void_p, c_size_t]),
    "l3a_tags_score": (c_float, [c_void_p, c_size_t]),
    "l3a_tags_threshold": (c_double, [c_void_p, c_size_t]),
    "l3a_tags_predicted": (c_int, [c_void_p, c_size_t]),
    "l3a_tags_view": (c_size_t, [c_void_p, c_size_t]),
    "l3a_tags_box": (c_int, [c_void_p, c_size_t, c_void_p]),
    "l3a_tags_create": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "l3a_tags_free": (None, [c_void_p]),
    "l3a_lesson_create": (c_int, [c_void_p, c_void_p]),
    "l3a_lesson_add": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_lesson_add_bytes": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, c_void_p]),
    "l3a_lesson_count": (c_size_t, [c_void_p]),
    "l3a_lesson_path": (c_char_p, [c_void_p, c_size_t]),
    "l3a_lesson_outcome": (c_int, [c_void_p, c_size_t]),
    "l3a_lesson_problem": (c_char_p, [c_void_p, c_size_t]),
    "l3a_lesson_free": (None, [c_void_p]),
    "l3a_lesson_settings": (c_int, [c_void_p, c_void_p]),
    "l3a_tagger_create": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p, c_void_p]),
    "l3a_tagger_teach": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "l3a_tagger_set_unlabelled": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "l3a_tagger_library": (c_void_p, [c_void_p]),
    "l3a_tagger_undo": (c_int, [c_void_p, c_void_p]),
    "l3a_tagger_revert": (c_int, [c_void_p, c_uint64, c_void_p]),
    "l3a_tagger_rename": (c_int, [c_void_p, c_char_p, c_char_p, c_void_p]),
    "l3a_tagger_widen": (c_int, [c_void_p, c_size_t]),
    "l3a_tagger_save": (c_int, [c_void_p]),
    "l3a_tagger_history": (c_int, [c_void_p, c_void_p]),
    "l3a_history_open": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_history_repair": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_history_free": (None, [c_void_p]),
    "l3a_history_model": (c_void_p, [c_void_p]),
    "l3a_history_undo": (c_int, [c_void_p, c_void_p]),
    "l3a_history_revert": (c_int, [c_void_p, c_uint64, c_void_p]),
    "l3a_history_rename": (c_int, [c_void_p, c_char_p, c_char_p, c_void_p]),
    "l3a_history_widen": (c_int, [c_void_p, c_size_t]),
    "l3a_history_save": (c_int, [c_void_p]),
    "l3a_history_ahead": (c_uint64, [c_void_p]),
    "l3a_history_count": (c_size_t, [c_void_p]),
    "l3a_history_entry_at": (c_int, [c_void_p, c_size_t, c_void_p]),
    "l3a_history_class": (c_char_p, [c_void_p, c_size_t, c_size_t, c_void_p]),
    "l3a_history_picture": (c_char_p, [c_void_p, c_size_t, c_size_t]),
    "l3a_history_tags": (c_char_p, [c_void_p, c_size_t, c_size_t]),
    "l3a_history_bytes": (c_uint64, [c_void_p]),
    "l3a_history_path": (c_char_p, [c_void_p]),
    "l3a_history_gap": (c_char_p, [c_void_p]),
    "l3a_pack_write": (c_int, [c_void_p, c_char_p, c_void_p, c_char_p, c_void_p]),
    "l3a_options_create": (c_int, [c_void_p, c_void_p]),
    "l3a_options_copy": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_options_free": (None, [c_void_p]),
    "l3a_options_set": (c_int, [c_void_p, c_void_p, c_char_p, c_char_p]),
    "l3a_options_set_number": (c_int, [c_void_p, c_void_p, c_char_p, c_double]),
    "l3a_options_set_integer": (c_int, [c_void_p, c_void_p, c_char_p, c_uint64]),
    "l3a_options_get": (c_size_t, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "l3a_options_number": (c_double, [c_void_p, c_char_p]),
    "l3a_options_integer": (c_uint64, [c_void_p, c_char_p]),
    "l3a_options_given": (c_int, [c_void_p, c_char_p]),
    "l3a_options_check": (c_int, [c_void_p, c_void_p]),
    "l3a_option_at": (POINTER(l3a_option_info), [c_size_t]),
    "l3a_option_needs": (c_char_p, [c_void_p, c_char_p]),
    "l3a_view_rows": (c_size_t, [c_size_t]),
    "l3a_view_box": (c_int, [c_size_t, c_size_t, c_void_p]),
    "l3a_features_open": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_features_open_npy": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_void_p]),
    "l3a_features_wrap": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, c_size_t, c_void_p, c_size_t, c_void_p]),
    "l3a_features_use_views": (c_int, [c_void_p, c_size_t]),
    "l3a_features_save": (c_int, [c_void_p, c_void_p, c_char_p]),
    "l3a_features_merge": (c_int, [c_void_p, c_void_p, c_size_t, c_char_p, c_void_p]),
    "l3a_features_free": (None, [c_void_p]),
    "l3a_features_rows": (c_size_t, [c_void_p]),
    "l3a_features_width": (c_size_t, [c_void_p]),
    "l3a_features_views": (c_size_t, [c_void_p]),
    "l3a_features_class_count": (c_size_t, [c_void_p]),
    "l3a_features_class": (c_char_p, [c_void_p, c_size_t]),
    "l3a_features_labels": (POINTER(c_int8), [c_void_p]),
    "l3a_features_members": (POINTER(c_int8), [c_void_p]),
    "l3a_features_id": (c_char_p, [c_void_p, c_size_t]),
    "l3a_features_set_ids": (c_int, [c_void_p, c_void_p, c_size_t]),
    "l3a_features_record": (c_char_p, [c_void_p, c_char_p]),
    "l3a_features_set_record": (c_int, [c_void_p, c_char_p, c_char_p]),
    "l3a_features_read": (c_int, [c_void_p, c_void_p, c_size_t, c_size_t, c_void_p]),
    "l3a_features_checksum": (c_int, [c_void_p, c_void_p]),
    "l3a_model_create": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p]),
    "l3a_model_load": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_model_save": (c_int, [c_void_p, c_char_p]),
    "l3a_model_free": (None, [c_void_p]),
    "l3a_lock_take": (c_int, [c_void_p, c_char_p, c_int, c_void_p]),
    "l3a_lock_free": (None, [c_void_p]),
    "l3a_model_learn": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "l3a_model_score": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "l3a_model_evaluate": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "l3a_model_accepts": (c_int, [c_void_p, c_void_p]),
    "l3a_model_accepts_to_score": (c_int, [c_void_p, c_void_p]),
    "l3a_model_options": (c_int, [c_void_p, c_void_p]),
    "l3a_model_set_option": (c_int, [c_void_p, c_char_p, c_char_p]),
    "l3a_model_width": (c_size_t, [c_void_p]),
    "l3a_model_class_count": (c_size_t, [c_void_p]),
    "l3a_model_class": (c_char_p, [c_void_p, c_size_t]),
    "l3a_model_class_images": (c_uint64, [c_void_p, c_size_t]),
    "l3a_model_phase_count": (c_size_t, [c_void_p]),
    "l3a_model_phase": (POINTER(l3a_phase_info), [c_void_p, c_size_t]),
    "l3a_model_part_count": (c_size_t, [c_void_p]),
    "l3a_model_part": (c_int, [c_void_p, c_size_t, c_void_p]),
    "l3a_model_part_judges": (c_int, [c_void_p, c_size_t, c_size_t]),
    "l3a_model_inputs": (c_size_t, [c_void_p]),
    "l3a_model_thresholds": (None, [c_void_p, c_void_p]),
    "l3a_model_coefficients": (POINTER(c_double), [c_void_p]),
    "l3a_model_record": (c_char_p, [c_void_p, c_char_p]),
    "l3a_model_set_record": (c_int, [c_void_p, c_char_p, c_char_p]),
    "l3a_model_teach": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_model_unteach": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_model_rename": (c_int, [c_void_p, c_char_p, c_char_p, c_void_p]),
    "l3a_model_set_unlabelled": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_model_unlabelled": (c_int, [c_void_p, c_void_p]),
    "l3a_model_merge": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_model_forget_classes": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "l3a_model_forget_phase": (c_int, [c_void_p, c_size_t, c_void_p]),
    "l3a_model_forget_images": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "l3a_model_plan": (c_int, [c_void_p, c_void_p, c_size_t, c_size_t, c_void_p]),
    "l3a_model_prepare": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "l3a_phase_begin": (c_int, [c_void_p, c_void_p, c_size_t]),
    "l3a_phase_count": (c_int, [c_void_p, c_void_p, c_size_t]),
    "l3a_phase_survey": (c_int, [c_void_p, c_void_p, c_size_t]),
    "l3a_phase_learn": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "l3a_phase_end": (c_int, [c_void_p]),
    "l3a_phase_abandon": (None, [c_void_p]),
    "l3a_measure": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, c_void_p, c_void_p, c_void_p]),
    "l3a_picture_read": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "l3a_picture_decode": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "l3a_picture_resize": (c_int, [c_void_p, c_void_p, c_size_t, c_size_t, c_int, c_void_p]),
    "l3a_picture_free": (None, [c_void_p, c_void_p]),
    "l3a_picture_format": (c_char_p, [c_void_p, c_size_t]),
    "l3a_picture_format_at": (c_char_p, [c_size_t]),
    "l3a_loader_create": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "l3a_loader_next": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_loader_free": (None, [c_void_p]),
    "l3a_sidecar_write": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "l3a_pictures_find": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "l3a_pictures_free": (None, [c_void_p]),
    "l3a_pictures_count": (c_size_t, [c_void_p]),
    "l3a_pictures_path": (c_char_p, [c_void_p, c_size_t]),
    "l3a_pictures_archive": (c_char_p, [c_void_p, c_size_t]),
    "l3a_pictures_skipped": (c_char_p, [c_void_p, c_size_t]),
    "l3a_pictures_reason": (c_char_p, [c_void_p, c_size_t]),
    "l3a_pictures_others": (c_size_t, [c_void_p]),
    "l3a_reader_tag_pictures": (c_int, [c_void_p, c_void_p, c_size_t, c_size_t, l3a_tags_callback, c_void_p]),
    "l3a_dataset_open": (c_int, [c_void_p, c_char_p, c_char_p, c_void_p, c_void_p]),
    "l3a_dataset_splits": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "l3a_dataset_free": (None, [c_void_p]),
    "l3a_dataset_rows": (c_size_t, [c_void_p]),
    "l3a_dataset_class_count": (c_size_t, [c_void_p]),
    "l3a_dataset_class": (c_char_p, [c_void_p, c_size_t]),
    "l3a_dataset_labels": (POINTER(c_int8), [c_void_p]),
    "l3a_dataset_members": (POINTER(c_int8), [c_void_p]),
    "l3a_dataset_id": (c_char_p, [c_void_p, c_size_t]),
    "l3a_dataset_path": (c_char_p, [c_void_p, c_size_t]),
    "l3a_dataset_archive": (c_char_p, [c_void_p, c_size_t, c_void_p, c_void_p]),
    "l3a_dataset_picture": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p]),
    "l3a_dataset_disagreements": (c_size_t, [c_void_p]),
    "l3a_backbone_engine": (c_char_p, []),
    "l3a_backbone_open": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "l3a_backbone_free": (None, [c_void_p]),
    "l3a_backbone_describe": (POINTER(l3a_backbone_info), [c_void_p]),
    "l3a_backbone_run": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "l3a_extract": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_char_p, c_void_p]),
    "l3a_backbone_sign": (c_int, [c_void_p, c_int, c_void_p]),
    "l3a_file_open": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_file_recognise": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_file_free": (None, [c_void_p]),
    "l3a_file_kind": (c_char_p, [c_void_p]),
    "l3a_file_size": (c_uint64, [c_void_p]),
    "l3a_file_record": (None, [c_void_p, c_size_t, c_void_p, c_void_p]),
    "l3a_file_tensor": (c_int, [c_void_p, c_size_t, c_void_p]),
    "l3a_file_write": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "l3a_output_open": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_output_write": (c_int, [c_void_p, c_void_p, c_size_t]),
    "l3a_output_commit": (c_int, [c_void_p]),
    "l3a_output_free": (None, [c_void_p]),
    "l3a_machine_query": (c_int, [c_void_p, c_void_p]),
    "l3a_reader_inputs": (c_size_t, [c_void_p]),
    "l3a_reader_width": (c_size_t, [c_void_p]),
    "l3a_reader_limit": (c_int, [c_void_p, c_uint64]),
    "l3a_reader_prepare": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "l3a_reader_prepare_pixels": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_reader_compute": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "l3a_reader_score": (c_int, [c_void_p, c_void_p, c_size_t, l3a_tags_callback, c_void_p]),
    "l3a_lesson_add_features": (c_int, [c_void_p, c_char_p, c_uint64, c_void_p, c_size_t, c_void_p]),
    "l3a_tagger_takes_features": (c_int, [c_void_p]),
    "l3a_history_foresee": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "l3a_history_foresee_in": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "l3a_history_load": (c_int, [c_void_p]),
    "l3a_history_pictures": (c_int, [c_void_p, l3a_taught_callback, c_void_p]),
    "l3a_history_find": (c_int, [c_void_p, c_uint64, l3a_taught_callback, c_void_p]),
    "l3a_history_lesson": (c_int, [c_void_p, c_size_t, l3a_lesson_callback, c_void_p]),
    "l3a_history_held": (c_size_t, [c_void_p, c_size_t]),
    "l3a_history_checksums": (c_size_t, [c_void_p, c_size_t, c_void_p, c_size_t]),
    "l3a_model_leave_out": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_model_leave_out_classes": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_model_matrix": (c_int, [c_void_p, c_size_t, c_size_t, c_void_p]),
    "l3a_model_is_inverse": (c_int, [c_void_p]),
    "l3a_model_cross": (POINTER(c_double), [c_void_p]),
    "l3a_sidecar_text": (c_int, [c_void_p, c_void_p, c_size_t, c_char_p, c_size_t, c_void_p]),
    "l3a_draw_class": (c_char_p, [c_size_t]),
    "l3a_draw_dataset": (c_int, [c_void_p, c_void_p, c_char_p]),
    "l3a_cluster_started": (c_size_t, [c_void_p]),
    "l3a_cluster_open": (c_int, [c_void_p, c_void_p]),
    "l3a_cluster_locals": (c_size_t, [c_void_p]),
    "l3a_cluster_join": (c_int, [c_void_p, c_void_p]),
    "l3a_cluster_end": (c_int, [c_void_p, c_int]),
    "l3a_cluster_abort": (None, [c_void_p, c_int]),
    "l3a_cluster_free": (None, [c_void_p]),
    "l3a_plugin_check": (c_int, [c_void_p, c_char_p]),
    "l3a_machine_speed": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_device_speed": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_uniform": (c_double, [c_uint64, c_uint64]),
    "l3a_library_open": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "l3a_library_free": (None, [c_void_p]),
    "l3a_library_views": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_library_add": (c_int, [c_void_p, c_char_p]),
    "l3a_library_remove": (c_int, [c_void_p, c_char_p]),
    "l3a_library_folder": (c_char_p, [c_void_p, c_size_t, c_void_p]),
    "l3a_library_scan": (c_int, [c_void_p, c_void_p]),
    "l3a_library_look": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_library_retry": (c_int, [c_void_p, c_void_p]),
    "l3a_library_say": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_int]),
    "l3a_library_take_history": (c_int, [c_void_p, c_void_p]),
    "l3a_library_judged": (c_int, [c_void_p, c_uint64, l3a_judged_callback, c_void_p]),
    "l3a_library_set_note": (c_int, [c_void_p, c_char_p, c_char_p]),
    "l3a_library_note": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_library_score": (c_int, [c_void_p, c_uint64, c_void_p]),
    "l3a_library_describe": (c_int, [c_void_p, c_void_p]),
    "l3a_library_change": (c_int, [c_void_p, c_void_p]),
    "l3a_library_count": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "l3a_library_find": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_found_free": (None, [c_void_p]),
    "l3a_found_count": (c_size_t, [c_void_p]),
    "l3a_found_id": (c_uint64, [c_void_p, c_size_t]),
    "l3a_found_rank": (c_double, [c_void_p, c_size_t]),
    "l3a_library_words": (c_int, [c_void_p, c_void_p]),
    "l3a_word_classes": (c_size_t, [c_char_p, c_void_p, c_size_t]),
    "l3a_word_at": (c_char_p, [c_size_t]),
    "l3a_words_source": (c_char_p, []),
    "l3a_library_duplicates": (c_int, [c_void_p, c_double, c_void_p]),
    "l3a_library_folders": (c_int, [c_void_p, c_char_p, l3a_folder_callback, c_void_p]),
    "l3a_library_picture_at": (c_int, [c_void_p, c_uint64, c_void_p]),
    "l3a_library_picture_find": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_library_picture_known": (c_int, [c_void_p, c_uint64, c_void_p]),
    "l3a_library_features": (c_int, [c_void_p, c_uint64, c_void_p]),
    "l3a_library_sample": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "l3a_watch_open": (c_int, [c_void_p, c_void_p, c_size_t, c_double, c_void_p]),
    "l3a_watch_next": (c_int, [c_void_p, c_double, c_void_p, c_void_p]),
    "l3a_watch_folder": (c_char_p, [c_void_p, c_size_t, c_void_p]),
    "l3a_watch_polls": (c_int, [c_void_p, c_size_t]),
    "l3a_watch_stop": (None, [c_void_p]),
    "l3a_watch_free": (None, [c_void_p]),
    "l3a_cache_folder": (c_int, [c_void_p, c_char_p, c_size_t]),
    "l3a_cache_measure": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "l3a_extract_cached": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "l3a_features_blank": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_void_p]),
    "l3a_dataset_usual_splits": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "l3a_train_recipe_at": (POINTER(l3a_train_recipe), [c_size_t]),
    "l3a_train_prepare": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "l3a_train": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p, c_void_p, c_char_p, c_void_p]),
    "l3a_protocol_parse": (c_int, [c_void_p, c_char_p, c_size_t, c_void_p, c_void_p]),
    "l3a_class_order": (c_int, [c_void_p, c_void_p, c_size_t, c_char_p, c_void_p]),
    "l3a_method_at": (POINTER(l3a_method_info), [c_size_t]),
    "l3a_method_sees_pictures": (c_int, [c_char_p, c_void_p]),
    "l3a_method_options": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_state_put": (c_int, [c_void_p, c_char_p, c_int, c_void_p, c_size_t, c_void_p]),
    "l3a_state_get": (c_int, [c_void_p, c_char_p, c_int, c_size_t, c_void_p, c_void_p]),
    "l3a_state_at": (POINTER(l3a_state_array), [c_void_p, c_size_t]),
    "l3a_experiment_create": (c_int, [c_void_p, c_void_p, c_void_p]),
    "l3a_experiment_plan": (c_int, [c_void_p, c_void_p]),
    "l3a_experiment_phase": (c_int, [c_void_p, c_size_t, c_void_p]),
    "l3a_experiment_run": (c_int, [c_void_p]),
    "l3a_experiment_failure": (c_char_p, [c_void_p, c_size_t]),
    "l3a_experiment_free": (None, [c_void_p]),
    "l3a_experiment_points": (c_size_t, [c_void_p]),
    "l3a_experiment_method": (c_char_p, [c_void_p, c_size_t]),
    "l3a_experiment_label": (c_char_p, [c_void_p, c_size_t]),
    "l3a_experiment_threshold": (c_char_p, [c_void_p, c_size_t]),
    "l3a_experiment_value": (c_char_p, [c_void_p, c_size_t, c_size_t]),
    "l3a_experiment_results": (c_void_p, [c_void_p, c_size_t]),
    "l3a_preset_at": (POINTER(l3a_preset), [c_size_t]),
    "l3a_folder_record": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "l3a_results_load": (c_int, [c_void_p, c_char_p, c_void_p]),
    "l3a_results_free": (None, [c_void_p]),
    "l3a_results_join": (c_int, [c_void_p, c_char_p]),
    "l3a_results_source": (c_char_p, [c_void_p, c_char_p]),
    "l3a_results_count": (c_size_t, [c_void_p]),
    "l3a_results_at": (POINTER(l3a_result), [c_void_p, c_size_t]),
    "l3a_results_average_precision": (POINTER(c_double), [c_void_p, c_size_t]),
    "l3a_results_tally": (POINTER(l3a_class_tally), [c_void_p, c_size_t, c_size_t]),
    "l3a_results_class_count": (c_size_t, [c_void_p]),
    "l3a_results_class": (c_char_p, [c_void_p, c_size_t]),
    "l3a_results_order_count": (c_size_t, [c_void_p]),
    "l3a_results_order": (c_char_p, [c_void_p, c_size_t]),
    "l3a_results_class_in": (c_char_p, [c_void_p, c_size_t, c_size_t]),
    "l3a_results_order_of": (c_size_t, [c_void_p, c_size_t]),
    "l3a_results_summary": (c_int, [c_void_p, c_void_p, c_char_p, c_void_p]),
    "l3a_results_verdict": (c_int, [c_void_p, c_void_p, c_char_p, c_size_t]),
    "l3a_results_significance": (c_int, [c_void_p, c_void_p, c_size_t, c_char_p, c_size_t, c_void_p]),
    "l3a_significance_free": (None, [c_void_p]),
    "l3a_significance_count": (c_size_t, [c_void_p]),
    "l3a_significance_at": (POINTER(l3a_difference), [c_void_p, c_size_t]),
    "l3a_published_at": (POINTER(l3a_published), [c_char_p, c_void_p, c_size_t, c_size_t]),
    "l3a_report_write": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_char_p]),
    "l3a_report_table": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_char_p, c_char_p, c_size_t, c_void_p]),
    "l3a_report_figures": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_char_p, c_char_p]),
    "l3a_adapt_prepare": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p, c_void_p]),
    "l3a_adapt": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p, c_char_p, c_void_p]),
    "l3a_train_page_write": (c_int, [c_void_p, c_void_p, c_char_p]),
}
# Functions whose first parameter is the context.
TAKES_CONTEXT = frozenset([
    "l3a_context_free",
    "l3a_device_describe",
    "l3a_tagger_open",
    "l3a_lesson_create",
    "l3a_lesson_settings",
    "l3a_tagger_create",
    "l3a_history_open",
    "l3a_history_repair",
    "l3a_pack_write",
    "l3a_options_create",
    "l3a_options_copy",
    "l3a_options_set",
    "l3a_options_set_number",
    "l3a_options_set_integer",
    "l3a_options_check",
    "l3a_features_open",
    "l3a_features_open_npy",
    "l3a_features_wrap",
    "l3a_features_merge",
    "l3a_model_create",
    "l3a_model_load",
    "l3a_lock_take",
    "l3a_model_plan",
    "l3a_measure",
    "l3a_picture_read",
    "l3a_picture_decode",
    "l3a_picture_resize",
    "l3a_picture_free",
    "l3a_loader_create",
    "l3a_sidecar_write",
    "l3a_pictures_find",
    "l3a_dataset_open",
    "l3a_dataset_splits",
    "l3a_backbone_open",
    "l3a_extract",
    "l3a_file_open",
    "l3a_file_recognise",
    "l3a_file_write",
    "l3a_output_open",
    "l3a_machine_query",
    "l3a_sidecar_text",
    "l3a_draw_dataset",
    "l3a_cluster_open",
    "l3a_plugin_check",
    "l3a_machine_speed",
    "l3a_device_speed",
    "l3a_library_open",
    "l3a_library_views",
    "l3a_watch_open",
    "l3a_cache_folder",
    "l3a_cache_measure",
    "l3a_extract_cached",
    "l3a_features_blank",
    "l3a_dataset_usual_splits",
    "l3a_train_prepare",
    "l3a_train",
    "l3a_protocol_parse",
    "l3a_class_order",
    "l3a_method_options",
    "l3a_experiment_create",
    "l3a_folder_record",
    "l3a_results_load",
    "l3a_results_summary",
    "l3a_results_verdict",
    "l3a_results_significance",
    "l3a_report_write",
    "l3a_report_table",
    "l3a_report_figures",
    "l3a_adapt_prepare",
    "l3a_adapt",
    "l3a_train_page_write",
])
