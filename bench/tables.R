# Tables of Debian's R packages as CSV files, for the league: real ones that nothing was chosen by.
#
#   apt-get install --no-install-recommends r-base-core r-cran-mlbench r-cran-modeldata r-cran-mass r-cran-kernlab r-cran-rpart r-cran-aer
#   ./dev bench-tables DIR --seeds 2 $(Rscript bench/tables.R DIR)
#
# writes them to DIR, of large ones 2860 rows (70 % are 2002), and prints the options that name their targets.
folder <- commandArgs(trailingOnly = TRUE)[1]
if (is.na(folder)) stop("usage: Rscript bench/tables.R DIR")
dir.create(folder, showWarnings = FALSE, recursive = TRUE)
wanted <- list(
  mlbench = c(Vowel = "Class", Sonar = "Class", Ionosphere = "Class", Satellite = "classes", LetterRecognition = "lettr", Glass = "Type",
              Vehicle = "Class", BreastCancer = "Class", HouseVotes84 = "Class", Soybean = "Class", DNA = "Class", Zoo = "type", Servo = "Class"),
  modeldata = c(hpc_data = "class", mlc_churn = "churn", attrition = "Attrition", penguins = "species", cells = "class", wa_churn = "churn",
                lending_club = "Class", ad_data = "Class", scat = "Species", stackoverflow = "Remote", two_class_dat = "Class",
                meats = "protein", tate_text = "year"),
  kernlab = c(spam = "type", musk = "Class"),
  AER = c(HMDA = "deny", SwissLabor = "participation", CreditCard = "card", PSID1976 = "participation", SmokeBan = "smoker",
          BankWages = "job", HousePrices = "price", CPS1985 = "wage", CASchools = "read", CollegeDistance = "score", Guns = "violent",
          TeachingRatings = "eval", Fatalities = "fatal", MASchools = "score8", PSID1982 = "wage", NMES1988 = "visits",
          USAirlines = "cost", Electricity1970 = "cost"),
  MASS = c(cpus = "perf", GAGurine = "GAG", nlschools = "lang", quine = "Days", Cars93 = "Price"),
  rpart = c(solder = "skips", car.test.frame = "Price"))
# What was measured, or computed, together with the target.
leave_out <- c(cells = "case", meats = "water", meats = "fat", cpus = "estperf", CASchools = "math")
for (package in names(wanted)) for (name in names(wanted[[package]])) {
  own <- new.env()
  data(list = name, package = package, envir = own)
  table <- as.data.frame(own[[name]])
  table <- table[, setdiff(names(table), leave_out[names(leave_out) == name])]
  set.seed(1)
  if (nrow(table) > 2860) table <- table[sort(sample(nrow(table), 2860)), ]
  write.csv(table, file.path(folder, paste0(name, ".csv")), row.names = FALSE)
  target <- wanted[[package]][[name]]
  cat(sprintf("--target %s.csv=%s%s ", name, target, if (is.numeric(table[[target]])) "" else ":class"))
}
