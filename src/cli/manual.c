/* What there is to say about each command beyond its options: how it behaves, and how it is used. Help and manual pages print it.
 * Lines of `examples` that begin with two blanks are typed; the others say what for. */
#include "cli.h"

#include <string.h>

static const struct manual manuals[] = {
    {"data",
     "Describes a data set and checks that it is whole: pictures and labels, how many pictures each class has, which classes come "
     "together, and with --protocol how many pictures each phase learns from and is measured on.\n"
     "DATASET is voc:FOLDER (the folder that holds VOC2007), coco:FOLDER (the folder that holds annotations) or list:FILE.csv, a "
     "CSV file with the columns path, labels (names with semicolons between them) and, where there are several parts, split. Paths "
     "are relative to the CSV file.\n"
     "A picture that is missing, empty or, with --check-pictures, cannot be decoded is named, and the exit code is 2.",
     "Look at one's own pictures before work begins:\n"
     "  l3a data list:pets.csv --check-pictures\n"
     "How VOC 2007 falls into five phases:\n"
     "  l3a data voc:VOCdevkit --protocol B0-C4\n"},
    {"extract",
     "Sends the pictures of a data set through a frozen network and writes a feature file: a row of numbers for each picture, with "
     "its labels. Learning needs nothing else.\n"
     "The checkpoint is a .safetensors file or a torch file (.pth, .pt), which is read without executing anything in it. Which "
     "network it is, is found from its tensors: ViT, ResNet or TResNet; 'l3a info FILE' says which.\n"
     "An extraction that was stopped goes on where it was when the same command is given again. A picture that cannot be read is "
     "left out and named, the rest is written, and the exit code is 2.",
     "Features of one's own pictures:\n"
     "  l3a extract --backbone vit_tiny.safetensors --data list:pets.csv --split train -o train.safetensors\n"
     "Features of VOC 2007's test pictures, in half the room:\n"
     "  l3a extract --backbone vit_tiny.safetensors --data voc:VOCdevkit --split test --float16 -o test.safetensors\n"},
    {"run",
     "Learns the classes of a training table phase by phase, measures after every phase on a test table, and prints the numbers. "
     "Several methods and seeds may be compared in one run.\n"
     "The plan (phases, memory, time) is printed before work begins. Every finished phase is on disk: a run that was stopped goes "
     "on with --resume, and ends with the same bits as one that was not. When all is done, report.html in the folder shows it.\n"
     "A method may have settings of its own, unless they are given: l3a+ has --alpha 0.3, --lift 0.1, --pseudo off, --gamma auto, "
     "--skip-features auto and --thresholds per-class.",
     "Eight phases of ten classes, the paper's settings:\n"
     "  l3a run --train train.safetensors --test test.safetensors --protocol B0-C10 -o my-run\n"
     "The method against its upper bound, three seeds each:\n"
     "  l3a run --train train.safetensors --test test.safetensors --protocol B0-C4 --method l3a,joint --seed 1,2,3 -o my-run\n"
     "NumPy arrays instead of feature files:\n"
     "  l3a run --train x.npy --train-labels y.npy --test xt.npy --test-labels yt.npy --names classes.txt --protocol B0-C4 -o "
     "my-run\n"},
    {"sweep",
     "Runs a grid: every method with every combination of the values given for the settings, over every seed. Any setting may have "
     "several values, with commas between them; --eta takes dynamic, too. The table has a row for each point, the best and the "
     "second best of each column being marked; sweep.csv has a row for each point, seed and phase.\n"
     "Points that share the random layer learn together: rows are read and expanded once for all of them, and values of gamma or "
     "eta share their sums, but for the rows on which their pseudo-labels differ. Layers of different dim have nothing in common "
     "and are learned one after the other. A point that would repeat another, because its method has no use for the setting that "
     "varies, is left out.\n"
     "Presets are the grids of the paper: methods (all that run, three seeds), ablation (without pseudo-labels, without weights, "
     "without both; three seeds), gamma, buffer (dim), threshold (eta) and weighting. Settings that are given go before those of "
     "the "
     "preset.\n"
     "A sweep that was stopped goes on with --resume, beginning with the points that were not finished.",
     "The ridge and the threshold, for a paper:\n"
     "  l3a sweep --train train.safetensors --test test.safetensors --protocol B0-C10 --gamma 10,100,1000 --eta 0.6,0.7,dynamic "
     "--format latex -o my-sweep\n"
     "The paper's ablation on one's own features:\n"
     "  l3a sweep --preset ablation --train train.safetensors --test test.safetensors --protocol B0-C4 --dim 2048 -o ablation\n"
     "What a sweep would cost:\n"
     "  l3a sweep --preset buffer --train train.safetensors --test test.safetensors --dry-run\n"},
    {"merge",
     "Adds together what several models have learned, and writes one model. They must share the random layer and the settings that "
     "decide about the sums; phases with the same classes become one phase, others follow. Says whether the result is the model "
     "that one place with all the pictures would have learned: it is with --pseudo off, --weights none, a --gamma that was given "
     "and "
     "no phases folded together. So is a class's second lot of pictures learned: in a model of its own, with the same settings, "
     "that "
     "is merged.",
     "What two sites have learned of the same classes:\n"
     "  l3a merge site-a.safetensors site-b.safetensors -o both.safetensors\n"},
    {"forget",
     "Takes back classes, a phase, or the part that single images had in the sums, and says whether the result is the model that "
     "never learned them (docs/beyond.md says when). A phase can be forgotten where its sums are kept apart (--method l3a+, or "
     "--keep-phases); images need the features and labels they were learned with, and phases without pseudo-labels. Whether a row "
     "was learned, the model cannot know.",
     "The second phase; two classes; the images of a person who asked for it:\n"
     "  l3a forget tagger.safetensors --phase 2 -o less.safetensors\n"
     "  l3a forget tagger.safetensors --classes cat,dog\n"
     "  l3a forget tagger.safetensors --features withdrawn.safetensors\n"},
    {"learn",
     "Teaches the model in the file MODEL new classes, in one phase, and saves it; where there is no such file, a new model is "
     "made. Only the labels of the classes named are looked at, and only the rows that show one of them are learned from. What the "
     "model knew it keeps: no old picture is needed.\n"
     "Settings given for a model that is there already replace its own where that makes sense; those that shape it (dim, seed, "
     "gamma, precision, alpha, lift, skip-features) cannot be changed. A model of --method l3a+ has other settings unless they are "
     "given: --alpha 0.3, --lift 0.1, --pseudo off, --gamma auto, --skip-features auto and --thresholds per-class.",
     "The first classes, then one more on another day:\n"
     "  l3a learn pets.safetensors --features train.safetensors --classes cat,dog,sofa\n"
     "  l3a learn pets.safetensors --features more.safetensors --classes parrot\n"
     "Many classes, from a file with a name a line:\n"
     "  l3a learn pets.safetensors --features train.safetensors --classes @names.txt --dim 2048\n"
     "Better numbers for more memory (docs/beyond.md):\n"
     "  l3a learn pets.safetensors --features train.safetensors --classes cat,dog,sofa --method l3a+\n"},
    {"eval",
     "Measures a model on features with labels: mAP, precision, recall and F1 over classes (CP, CR, CF1) and over all labels (OP, "
     "OR, OF1), and the average precision (AP) of each class. Rows that show none of the model's classes are left out.",
     "The numbers of a model:\n"
     "  l3a eval pets.safetensors --features test.safetensors\n"
     "The same for a program:\n"
     "  l3a eval pets.safetensors --features test.safetensors --format json\n"},
    {"predict",
     "Prints the tags of pictures, or of the rows of a feature file, each with its score, highest first. A score near 1 says that "
     "the class is there, near 0 that it is not; it is not a probability. A PICTURE named '-' stands for a "
     "list of paths on the standard input, one a line.\n"
     "The backbone has to be the one whose features the model learned from, with the same --pool, --size, --mean, --std, --filter "
     "and --orient: the model knows, and refuses another. A picture that cannot be read is named, the rest is tagged, and the exit "
     "code is 2.",
     "Tag two pictures:\n"
     "  l3a predict pets.safetensors --backbone vit_tiny.safetensors holiday1.jpg holiday2.jpg\n"
     "A whole folder, the three best tags each, as CSV:\n"
     "  find photos -name '*.jpg' | l3a predict pets.safetensors --backbone vit_tiny.safetensors - --top 3 --format csv\n"},
    {"info",
     "Says what a file holds: a model with its classes, phases and settings, a feature file, a checkpoint and the network in it, "
     "or "
     "a NumPy array. Checksums are verified where the file has them.",
     "Which network is this?\n"
     "  l3a info vit_tiny.safetensors\n"
     "The classes of a model, for a program:\n"
     "  l3a info pets.safetensors --format json\n"},
    {"report",
     "Writes the page about a run: one HTML file with charts and tables that needs no network and no script. 'l3a run' writes it "
     "itself, as report.html in the run's folder; this command writes it again, for a run that is not finished, too, or one page "
     "that "
     "compares the runs of several folders.\n"
     "Test pictures are shown where the feature file says which data set they came from and they are still there, or where "
     "--pictures names it.",
     "The page about a run again:\n"
     "  l3a report my-run\n"
     "Three runs beside each other:\n"
     "  l3a report first second third -o comparison.html\n"},
    {"doctor",
     "Shows processor, threads, memory and matrix library as this program finds them, and measures how fast they are. Where a "
     "program "
     "of one's own that uses the library needs something in its environment, that is said here, too.",
     "What this machine will use:\n"
     "  l3a doctor\n"},
    {"demo",
     "Needs no data and no network: it draws labelled pictures, sees them through a small backbone that is a part of this command "
     "and "
     "was trained on drawings of other things, learns in phases by several methods, prints the table, writes the report, tags a "
     "few "
     "pictures, teaches one more class, and says what to type next with pictures of one's own.",
     "In a folder of its own:\n"
     "  l3a demo -o my-demo\n"
     "The data set that it drew:\n"
     "  l3a data voc:my-demo/pictures\n"},
    {"help",
     "Without a command, the list of commands. The same tables make the manual pages and the completion of shells: --format man "
     "prints the page of a command, or that of l3a, and --format bash, zsh or fish prints a completion script.",
     "What run can do:\n"
     "  l3a help run\n"
     "Completion in this shell, where l3a was not installed:\n"
     "  source <(l3a help --format bash)\n"},
};

const struct manual *manual_find(const char *command) {
    for (size_t i = 0; i < sizeof manuals / sizeof manuals[0]; i++) {
        if (strcmp(manuals[i].command, command) == 0) {
            return &manuals[i];
        }
    }
    return NULL;
}
