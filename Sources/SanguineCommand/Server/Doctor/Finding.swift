/// What one check of a data folder came to.
struct Finding: Encodable, Hashable {
    enum Status: String, Encodable, Hashable {
        case ok
        /// It works, and somebody should know.
        case warning
        case failed
        /// It could not be checked, because of what another check found.
        case skipped
    }

    /// What was checked, in one word.
    var check: String
    var status: Status
    /// What was found.
    var finding: String
    /// What to do, unless all is well.
    var remedy: String?

    init(_ check: String, _ status: Status, _ finding: String, remedy: String? = nil) {
        self.check = check
        self.status = status
        self.finding = finding
        self.remedy = remedy
    }
}
