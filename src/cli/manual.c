/* The description and the examples of each command, for the help and the manual pages. In `examples`, lines that begin with two
 * spaces are commands; the others say what they are for. */
#include "cli.h"

#include <string.h>

static const struct manual manuals[] = {
    {"data",
     "Describes a data set and checks that it is complete: how many pictures and labels it has, how many pictures each class has, "
     "and which classes appear together. With --protocol, also shows how many pictures each phase has for training and testing.\n"
     "DATASET is voc:FOLDER (the folder that contains VOC2007), coco:FOLDER (the folder that contains annotations), list:FILE.csv, "
     "folders:FOLDER or tar:FILE.tar. A CSV file has the columns path, labels (class names separated by semicolons) and, "
     "optionally, split. "
     "Paths are relative to the CSV file. A folder of folders has a folder for each class, with its pictures; a picture that is "
     "in several folders shows several classes. A tar file has pictures KEY.jpg, .png, .webp or .heic, as WebDataset does, with "
     "labels in KEY.json ({\"labels\": [\"dog\", \"cat\"]}), KEY.cls (one class) or KEY.txt (a label on each line). Several are "
     "written as tar:a.tar,b.tar, 'tar:shard-*.tar' or 'tar:shard-{0000..0099}.tar'.\n"
     "Pictures that are missing or empty are listed, and the exit code is then 2. So are pictures that cannot be decoded, if "
     "--check-pictures is given.",
     "Check your own pictures before you start:\n"
     "  l3a data list:pets.csv --check-pictures\n"
     "Pictures sorted into pets/cat, pets/dog and so on:\n"
     "  l3a data folders:pets\n"
     "See how VOC 2007 is divided into five phases:\n"
     "  l3a data voc:VOCdevkit --protocol B0-C4\n"},
    {"extract",
     "Runs the pictures of a data set through a frozen network and writes a feature file: one row of numbers per picture, with its "
     "labels. Learning needs nothing else. 'l3a help data' says what data sets look like.\n"
     "The checkpoint is a .safetensors file or a PyTorch file (.pth, .pt). Nothing in a PyTorch file is executed. The network is "
     "recognised from its tensors: ViT (tiny, small, base or large), ResNet or TResNet. Use 'l3a info FILE' to see which one a "
     "file contains.\n"
     "VOC marks objects that are hard to see as difficult. By default, a class is absent if a picture has only difficult objects "
     "of "
     "it. With --difficult ignore it is unknown, and the metrics leave it out, as the VOC devkit does; extract the training and "
     "the "
     "test pictures the same way. Crowds (COCO) give no label, but the file records which phases they belong to.\n"
     "With --views, the file also has features of crops of each picture, in which small things appear larger: 5 crops have 0.6 of "
     "each side, 9 have 0.45, and 14 are both. The network runs once for the picture and once for each crop.\n"
     "Networks run on the processor, so --device has no effect here: a GPU learns from features, but does not compute them.\n"
     "If an extraction is interrupted, run the same command again to continue. Pictures that cannot be read are skipped and "
     "listed, and the exit code is then 2.\n"
     "Several processes can share the work. With --shards 32, or under mpirun or srun, each takes the next of the shards that no "
     "other process has taken, and the last one joins them. They must run the same command and share the folder of -o. With "
     "--shard 3/8, a process extracts only the third of eight shards, and 'l3a merge' joins the files. Shards consist of whole "
     "batches of 16 pictures, so some are empty if there are few pictures. The result has the bytes that one process on the same "
     "kind of machine would have written.",
     "Features of your own pictures:\n"
     "  l3a extract --backbone vit_tiny.safetensors --data list:pets.csv --split train -o train.safetensors\n"
     "Features of the VOC 2007 test pictures, at half the file size:\n"
     "  l3a extract --backbone vit_tiny.safetensors --data voc:VOCdevkit --split test --float16 -o test.safetensors\n"
     "Features of the pictures in a hundred tar files, which are not unpacked:\n"
     "  l3a extract --backbone vit_tiny.safetensors --data 'tar:shard-{0000..0099}.tar' -o train.safetensors\n"
     "Start this on as many machines as you like, in a folder that they share:\n"
     "  l3a extract --backbone vit_tiny.safetensors --data voc:VOCdevkit --split trainval --shards 32 -o train.safetensors\n"
     "Two machines, each with half of the pictures:\n"
     "  l3a extract --backbone vit_tiny.safetensors --data voc:VOCdevkit --split trainval --shard 1/2 -o shard-1.safetensors\n"
     "  l3a extract --backbone vit_tiny.safetensors --data voc:VOCdevkit --split trainval --shard 2/2 -o shard-2.safetensors\n"
     "  l3a merge shard-1.safetensors shard-2.safetensors -o train.safetensors\n"},
    {"run",
     "Learns the classes of a training set phase by phase, evaluates on a test set after every phase, and prints the results. One "
     "run can compare several methods, class orders and seeds: each method learns once for every order and seed, and the numbers "
     "are "
     "means with the standard deviation over all of them.\n"
     "The plan (phases, memory, time) is printed first. Every finished phase is saved, so an interrupted run can be resumed with "
     "--resume -o DIR; the result is bit-identical to that of an uninterrupted run. At the end, report.html in the folder shows "
     "the results.\n"
     "A method can have defaults of its own, which options on the command line override: l3a+ uses --alpha 0.3, --lift 0.1, "
     "--pseudo off, --gamma auto, --skip-features auto and --thresholds per-class.\n"
     "Under mpirun or srun, the processes divide the images among them, as in sweep, learn and eval. The results are those of one "
     "process, up to rounding.",
     "Eight phases of ten classes, with the paper's settings:\n"
     "  l3a run --train train.safetensors --test test.safetensors --protocol B0-C10 -o my-run\n"
     "Three class orders and two seeds, and the table for a paper:\n"
     "  l3a run --train train.safetensors --test test.safetensors --class-order shuffle:1,shuffle:2,shuffle:3 --seed 1,2 "
     "--method l3a,joint --format latex -o orders\n"
     "Resume it after an interruption:\n"
     "  l3a run --resume -o my-run\n"
     "Four processes together:\n"
     "  mpirun -n 4 l3a run --train train.safetensors --test test.safetensors --protocol B0-C10 -o my-run\n"
     "Compare the method with its upper bound, three seeds each:\n"
     "  l3a run --train train.safetensors --test test.safetensors --protocol B0-C4 --method l3a,joint --seed 1,2,3 -o my-run\n"
     "Use NumPy arrays instead of feature files:\n"
     "  l3a run --train x.npy --train-labels y.npy --test xt.npy --test-labels yt.npy --names classes.txt --protocol B0-C4 -o "
     "my-run\n"},
    {"sweep",
     "Runs a grid: every method with every combination of the given values, for every seed. Any setting can have several values, "
     "separated by commas; --eta also accepts dynamic. The table has one row per point and marks the best of each column, and "
     "those that may be as good, if there are at least five runs of each point; with --format latex or markdown, it is the one "
     "that 'l3a report' prints. sweep.csv has one row per point, seed and "
     "phase.\n"
     "Points that share the random layer are learned together. Rows are read and expanded once for all of them, and different "
     "values of gamma or eta share their sums, except for the rows where their pseudo-labels differ. Different values of dim share "
     "nothing and are learned one after another. A point is dropped if it would repeat another one because its method does not use "
     "the setting that varies.\n"
     "The presets are the grids of the paper: methods (all that run, three seeds), ablation (a trained head, and l3a without "
     "pseudo-labels, without weights, without both; three seeds), memory (images kept by replay methods; three seeds), gamma, "
     "buffer (dim), threshold (eta) and weighting. Settings on the command line "
     "override those of the preset.\n"
     "An interrupted sweep can be resumed with --resume -o DIR; only unfinished points are run again.",
     "Vary the ridge and the threshold, and print a LaTeX table:\n"
     "  l3a sweep --train train.safetensors --test test.safetensors --protocol B0-C10 --gamma 10,100,1000 --eta 0.6,0.7,dynamic "
     "--format latex -o my-sweep\n"
     "The paper's ablation, on your own features:\n"
     "  l3a sweep --preset ablation --train train.safetensors --test test.safetensors --protocol B0-C4 --dim 2048 -o ablation\n"
     "See what a sweep would cost:\n"
     "  l3a sweep --preset buffer --train train.safetensors --test test.safetensors --dry-run\n"},
    {"merge",
     "Combines what several models have learned into one model. The models must have the same random layer and the same settings "
     "for learning. Images that were judged for the same classes are added up; the others are kept beside them.\n"
     "The command says whether the result equals a model that learned from all the pictures in one place. It does if the models "
     "were made with --pseudo off, --weights none and a fixed --gamma, and without folded phases. Two models that have learned the "
     "same images of the same classes are refused.\n"
     "Feature files are joined row by row. Shards of an extraction (--shard) may be given in any order, but all of them are "
     "needed. "
     "Other files are joined in the order given; they must have the same classes, width, views and type, and no image may be in "
     "two "
     "of them.\n"
     "Shards of 'l3a tag' are joined as well, in any order; all of them are needed, each with its record FILE.shard beside it.",
     "Combine what two sites have learned about the same classes:\n"
     "  l3a merge site-a.safetensors site-b.safetensors -o both.safetensors\n"
     "Join the shards of an extraction:\n"
     "  l3a merge shard-*.safetensors -o train.safetensors\n"},
    {"forget",
     "Removes classes, a phase or single images from a model, and says whether the result equals a model that never learned them "
     "(docs/beyond.md explains when it does).\n"
     "A phase can be removed if the model keeps its phases apart (--method l3a+, or --keep-phases). To remove images, give the "
     "features and labels they were learned with; their phases must not have pseudo-labels. The model cannot check whether a row "
     "was really learned.",
     "Remove the second phase, two classes, or the images of a person who asked for it:\n"
     "  l3a forget tagger.safetensors --phase 2 -o less.safetensors\n"
     "  l3a forget tagger.safetensors --classes cat,dog\n"
     "  l3a forget tagger.safetensors --features withdrawn.safetensors\n"},
    {"pack",
     "Writes what tagging needs of a model to a small file: the coefficients in float16 or int8, the names and thresholds of the "
     "classes, and how to make the features. The file holds no sums over images, no history and no paths of pictures. It can tag, "
     "but not learn; keep the model for that.\n"
     "With --with-backbone the file holds the backbone too and is all that tagging needs. Otherwise the backbone must lie where "
     "the file expects it, or be named.\n"
     "With --features the command scores these rows with both files, and prints the largest change of a score and how many tags "
     "differ.",
     "One file to tag with, on any machine:\n"
     "  l3a pack tagger.safetensors -o tagger.packed --with-backbone\n"
     "The smallest file, and what it costs:\n"
     "  l3a pack tagger.safetensors -o small.packed --type int8 --features test.safetensors\n"},
    {"learn",
     "Teaches new classes to the model in the file MODEL, as one phase, and saves it. If the file does not exist, a new model is "
     "created. Only the labels of the named classes are used, and only rows that show at least one of them are learned from. The "
     "model keeps what it knew; old pictures are not needed.\n"
     "Settings given for an existing model replace its own where possible. Settings that define the model (dim, seed, gamma, "
     "precision, alpha, lift, skip-features) cannot be changed. A model with --method l3a+ has other defaults: --alpha 0.3, --lift "
     "0.1, --pseudo off, --gamma auto, --skip-features auto and --thresholds per-class.\n"
     "The model is locked from before it is read until it is saved. While another process changes it, this command fails or, with "
     "--wait, waits.",
     "Learn the first classes, and one more on another day:\n"
     "  l3a learn pets.safetensors --features train.safetensors --classes cat,dog,sofa\n"
     "  l3a learn pets.safetensors --features more.safetensors --classes parrot\n"
     "Take many classes from a file with one name per line:\n"
     "  l3a learn pets.safetensors --features train.safetensors --classes @names.txt --dim 2048\n"
     "Get better results for more memory (docs/beyond.md):\n"
     "  l3a learn pets.safetensors --features train.safetensors --classes cat,dog,sofa --method l3a+\n"},
    {"eval",
     "Measures a model on labelled features: mAP; precision, recall and F1 averaged over classes (CP, CR, CF1) and over all labels "
     "(OP, OR, OF1); and the average precision (AP) of each class.\n"
     "Rows that show none of the model's classes are left out, as in the paper, and their number is printed. With --all-pictures "
     "they count: every tag on them is wrong, which is what you see when you tag any pictures.",
     "Measure a model:\n"
     "  l3a eval pets.safetensors --features test.safetensors\n"
     "The same, as JSON:\n"
     "  l3a eval pets.safetensors --features test.safetensors --format json\n"
     "Also on pictures that show none of the classes:\n"
     "  l3a eval pets.safetensors --features test.safetensors --all-pictures\n"},
    {"predict",
     "Prints the tags of pictures, or of the rows of a feature file, each with its score, highest first. A score near 1 means that "
     "the class is present, near 0 that it is absent; it is not a probability. If PICTURE is '-', paths are read from the standard "
     "input, one per line.\n"
     "The backbone must be the one that made the features the model was trained on, with the same --pool, --size, --mean, --std, "
     "--filter and --orient; the model records them and refuses others. Pictures that cannot be read are listed, the rest are "
     "tagged, and the exit code is then 2.\n"
     "CSV has one row per tag; a picture without a tag has one row with no class and no number.",
     "Tag two pictures:\n"
     "  l3a predict pets.safetensors --backbone vit_tiny.safetensors holiday1.jpg holiday2.jpg\n"
     "Tag all pictures in a folder with three tags each, as CSV:\n"
     "  find photos -name '*.jpg' | l3a predict pets.safetensors --backbone vit_tiny.safetensors - --top 3 --format csv\n"},
    {"tag",
     "Tags pictures, and all pictures in folders and their subfolders; tar:FILE.tar stands for the pictures in a tar file, which "
     "is "
     "not unpacked, and several are written as for 'l3a data'. Every picture is listed: with its tags and their scores, "
     "the "
     "highest first; with '-' if it has none; or with the reason why it cannot be read, and the exit code is then 2. A score near "
     "1 "
     "means that the tag fits, near 0 that it does not; it is not a probability. If PICTURE is '-', paths are read from the "
     "standard input, one per line.\n"
     "The model knows its backbone and how its pictures were prepared; if it does not know where the backbone is, name it with "
     "--backbone. Pictures are turned upright as their EXIF orientation says, unless the model learned from pictures as they are "
     "stored.\n"
     "CSV has the columns path, labels, scores and error. Correct the tags in it, and 'l3a teach MODEL --list FILE.csv' learns "
     "from them. With "
     "-o, "
     "its paths are relative to the folder of FILE, or absolute. JSON is an array with one object per picture; with --format "
     "jsonl, "
     "each object has a line of its own.\n"
     "--long writes one line per picture and tag instead, for databases: path, tag, score, given (whether the tag is given: 1 or 0 "
     "in CSV, true or false in JSON) and error. It lists every tag of the model, or with --given only those that are given. A "
     "picture that cannot be read has one line, with its path and the error. --fields chooses the columns and their order: also "
     "the "
     "threshold of the tag, its rank in the picture from 1, and with views the crop that fits it best (left, top, right, bottom).\n"
     "--views 5, 9 or 14 also looks at so many crops of each picture, and scores a tag by the whole picture and its best crop. "
     "That finds smaller things, whatever the model was taught with, but takes about 6, 9 or 14 times as long. JSON then has the "
     "box of the crop that fits each tag best: left, top, right and bottom, from 0 to 1.\n"
     "--sort uncertain starts with the picture whose tags are most in doubt: one of its scores is closest to the threshold of the "
     "tag. These are the most useful to check and to teach next. The output also names the tag that is in doubt.\n"
     "--xmp writes the tags as keywords (dc:subject) for photo programs. For photo.jpg, it uses photo.jpg.xmp if that exists, "
     "otherwise photo.xmp if that exists, and otherwise makes photo.jpg.xmp, which darktable, digiKam, Immich and PhotoPrism read; "
     "with --xmp-name photo.xmp it makes photo.xmp, the name that Adobe uses. Keywords that are there stay, and so does everything "
     "else in the file. A tag that was written earlier and is not given any more stays as well, because it cannot be told from one "
     "that a person added; --xmp-replace removes every tag that the model knows and did not give. Files that need no change are "
     "not "
     "written, and damaged ones are left as they are.\n"
     "Several processes can share the work. With --shards 32, or under mpirun or srun, each takes the next of the shards that no "
     "other process has taken, and the last one joins them. They must run the same command and share the folder of -o. If one is "
     "killed, run the same command again: it tags only what is missing. With --shard 3/8, a process tags only the third of eight "
     "shards. Its file is complete in itself; FILE.shard beside it says what it is a part of, and 'l3a merge' joins the files. "
     "Shards of another model or edition of it, of other pictures or with other options are refused. The result has the bytes that "
     "one process on the same kind of machine would have written.",
     "Tag a folder of photos:\n"
     "  l3a tag pets.l3a holiday\n"
     "Write a table for a spreadsheet, with the pictures to check first:\n"
     "  l3a tag pets.l3a holiday --sort uncertain -o tags.csv\n"
     "Tag the pictures in tar files:\n"
     "  l3a tag pets.l3a 'tar:shard-*.tar' -o tags.csv\n"
     "Look for small things as well:\n"
     "  l3a tag pets.l3a holiday --views 14\n"
     "Write keywords for photo programs:\n"
     "  l3a tag pets.l3a holiday --xmp\n"
     "Write a line for each tag of each picture, for a database:\n"
     "  l3a tag pets.l3a holiday --long --fields path,tag,score,given,threshold -o tags.jsonl\n"
     "Start this on as many machines as you like, in a folder that they share:\n"
     "  l3a tag pets.l3a photos --shards 64 -o tags.csv\n"},
    {"teach",
     "Teaches a model what pictures show. The pictures are files or folders, which are searched to any depth; '-' reads paths from "
     "the standard input, one per line. A new model needs --backbone once; it then remembers where that file is. More pictures of "
     "known tags, new tags and corrections can be taught "
     "at "
     "any time, in any order.\n"
     "--tags should list everything the model knows that the pictures show: a known tag that is not listed is learned as not "
     "shown. "
     "If you are not sure, use --only, or --judged with the tags you are sure about.\n"
     "To teach many tags at once, give folders:DIR, where DIR has a folder of pictures for each tag, or --list with a CSV file.\n"
     "Pictures that cannot be read are listed and skipped, and the exit code is then 2. A picture that was taught before with the "
     "same tags is skipped too; with other tags it is an error, unless --instead says that the old tags were wrong.\n"
     "With --views, a new model also learns from crops of each picture, and 'l3a tag' looks at them. This is rarely worth the "
     "time: "
     "'l3a tag --views' finds small things with any model.\n"
     "MODEL.history keeps what 'l3a undo' needs: for each picture its path, a checksum, the tags, and the features, about 1 to 4 "
     "KiB, and as much again for each crop. Features are not the picture, but tell something about what it shows; only you can "
     "read the file. It is never part of "
     "the model. With --no-undo nothing is kept of these pictures; lessons are undone in order, so neither this one nor those "
     "before it can be undone then.\n"
     "With --unlabelled, say which pictures are to be tagged: a folder, or a feature file of them. Nobody needs to judge them. A "
     "sample of 4,000 shows what is common among them, so that a tag needs more than that; the model keeps sums over them, and no "
     "picture. This helps most if only a few of your pictures show a tag. It needs to be given once, and again when the pictures "
     "have changed much; it can be given alone. A picture that is taught no longer counts as unlabelled. --no-unlabelled takes "
     "them away.\n"
     "At the end, precision and recall to expect are printed for each tag: among the unlabelled pictures, if they were given with "
     "this lesson; otherwise if half of the pictures to be tagged show none of the tags. They are estimated from the pictures in "
     "the history, each scored as if it had not been taught.",
     "Make a model and teach it a first tag:\n"
     "  l3a teach pets.l3a photos/cats --tags cat --backbone vit_tiny.safetensors\n"
     "Teach two tags that a picture shows:\n"
     "  l3a teach pets.l3a sofa1.jpg sofa2.jpg --tags cat,sofa\n"
     "Say that something is not there:\n"
     "  l3a teach pets.l3a fox.jpg --not cat,dog\n"
     "Teach a folder of folders, each named after a tag:\n"
     "  l3a teach pets.l3a folders:photos/by-tag\n"
     "Correct a picture that had the wrong tags:\n"
     "  l3a teach pets.l3a sofa2.jpg --tags dog,sofa --instead\n"
     "Teach a tag for a library of photos, most of which do not show it:\n"
     "  l3a teach pets.l3a umbrellas --tags umbrella --unlabelled ~/Pictures\n"},
    {"undo",
     "Takes the last lesson back: the model is as it was before, as far as rounding allows. Repeat the command to go back further. "
     "Neither the pictures nor the backbone are needed; what is needed is in MODEL.history. Undo stops at a lesson that was taught "
     "with --no-undo, and where another command has changed the model.",
     "Take the last lesson back:\n"
     "  l3a undo pets.l3a\n"},
    {"history",
     "Lists what the model was taught, the oldest lesson first, and how far 'l3a undo' can go back.\n"
     "If MODEL.history is damaged in the middle, commands that need it refuse it, and say how many lessons could be lost. --repair "
     "applies the lessons that can still be read to the model, writes the history again without the rest, and names each lesson "
     "that is lost. A copy of the damaged file stays beside it, as MODEL.history.damaged-1. A damaged end needs no repair: it was "
     "never answered, and the next lesson takes its place.",
     "See what was taught when:\n"
     "  l3a history pets.l3a\n"
     "See the pictures as well, as JSON:\n"
     "  l3a history pets.l3a --files --format json\n"
     "Repair a damaged history:\n"
     "  l3a history pets.l3a --repair\n"},
    {"rename",
     "Gives a tag another name. If there is a tag of the new name already, the two become one. Both can be undone; merging needs a "
     "history that has every picture for that.",
     "Correct the spelling of a tag:\n"
     "  l3a rename pets.l3a dgo dog\n"
     "Make one tag of two:\n"
     "  l3a rename pets.l3a kitten cat\n"},
    {"serve",
     "Serves a model over HTTP: programs send pictures and get tags, and people open the page in a browser, correct tags, and "
     "teach "
     "new ones. What is taught is used at once. A lesson is answered when it is safe in the history beside the model; the model "
     "file follows in the background, and at the end.\n"
     "Only this machine can reach the server, unless --listen says otherwise; it then needs --token-file, --tokens or --insecure. "
     "docs/serving.md describes the interface, and how to run it as a service.\n"
     "SIGTERM and Ctrl-C answer what has been asked, save the model, and end. SIGHUP reads the model file and the tokens again, "
     "and opens the log again.",
     "See the whole idea, on drawn pictures:\n"
     "  l3a serve --demo\n"
     "Your own pictures and model:\n"
     "  l3a serve pets.l3a --library photos\n"
     "Start with a model that knows nothing yet:\n"
     "  l3a serve pets.l3a --backbone vit_tiny.safetensors --library photos\n"
     "Let other machines in, with a token:\n"
     "  l3a serve pets.l3a --listen 0.0.0.0:8080 --token-file token\n"},
    {"info",
     "Shows what a file holds: a model with its classes, phases and settings, a feature file, a checkpoint and the network in it, "
     "or a NumPy array. Verifies the checksums, if the file has any. Of a file with many tensors, only the first few are listed "
     "unless --tensors is given.",
     "Find out which network a checkpoint contains:\n"
     "  l3a info vit_tiny.safetensors\n"
     "Get the classes of a model, as JSON:\n"
     "  l3a info pets.l3a --format json\n"},
    {"report",
     "Writes the report of a run: one HTML file with charts and tables, which needs no network and no scripts. 'l3a run' writes it "
     "as report.html in the folder of the run, and 'l3a sweep' one about all its points. Use this command to write it again, to "
     "see an unfinished run, or to compare several runs on one page.\n"
     "Test pictures are shown if the feature file records which data set they came from and they are still there, or if --pictures "
     "names the data set.\n"
     "With --format svg, pdf or png, writes each chart as a figure for papers and slides to a folder, named by what it shows: "
     "map-by-phase.svg. Files of the same names are replaced. PDF and PNG (300 dots per inch) need the plug-in libl3a-figure.so, "
     "which is built where librsvg2-dev is installed.\n"
     "With --format latex or markdown, prints the results of finished runs, or of a finished sweep, as a table for a paper or a "
     "web page. With --format csv, prints one row per method and metric, with the difference from the best, its interval and p "
     "value.\n"
     "With --with, results that were computed elsewhere join the tables, charts and comparisons of a run. The file has the columns "
     "method, "
     "seed, phase and map and, optionally, class_f1, overall_f1, order, classes and threshold; numbers are in percent.",
     "Write the report of a run again:\n"
     "  l3a report my-run\n"
     "Compare three runs:\n"
     "  l3a report first second third -o comparison.html\n"
     "Compare the run with results that were computed elsewhere:\n"
     "  l3a report my-run --with results.csv\n"
     "Get the charts as figures for a paper:\n"
     "  l3a report my-run --format pdf -o figures\n"},
    {"doctor",
     "Shows the processor, threads, memory, matrix library and picture formats that l3a finds, whether the server, figures in PDF "
     "and PNG, MPI and a GPU can be used, and measures the speed. Says what to install for what is missing, and what your own "
     "programs that use the library need in their environment.",
     "See what l3a will use on this machine:\n"
     "  l3a doctor\n"},
    {"demo",
     "Shows everything l3a does, without data and without a network connection. Draws labelled pictures, computes their features "
     "with a small backbone that is part of this program and was trained on drawings of other things, learns them in phases with "
     "several methods, prints the results, writes the report, tags a few pictures, and teaches one more class. Ends with commands "
     "to try next.",
     "Run it in a folder of its own:\n"
     "  l3a demo -o my-demo\n"
     "Look at the data set that it drew:\n"
     "  l3a data voc:my-demo/pictures\n"},
    {"help",
     "Lists the commands, or explains one. --format man prints the manual page of a command, or of l3a itself; --format bash, zsh "
     "or fish prints a completion script for that shell.",
     "Explain run:\n"
     "  l3a help run\n"
     "Turn on completion in this shell, if l3a is not installed:\n"
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
