/// The result of a check of a data folder.
struct Finding: Encodable, Hashable {
    enum Status: String, Encodable, Hashable {
        case ok
        /// The check passed, but the operator should know the finding.
        case warning
        case failed
        /// The check was impossible because of another finding.
        case skipped
    }

    /// The checked part, in one word.
    var check: String
    var status: Status
    /// A description of the finding.
    var finding: String
    /// The remedy, unless the check passed.
    var remedy: String?

    init(_ check: String, _ status: Status, _ finding: String, remedy: String? = nil) {
        self.check = check
        self.status = status
        self.finding = finding
        self.remedy = remedy
    }
}
