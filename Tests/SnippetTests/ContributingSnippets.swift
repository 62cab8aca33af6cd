import SanguineModel
import Testing

/// The samples of `CONTRIBUTING.md`.
@Suite("Contributing snippets", .timeLimit(.minutes(15)))
struct ContributingSnippets {
    @Test func `a moment is written in UTC with milliseconds`() {
        let moment = Timestamp(millisecondsSince1970: 1_250)

        #expect(moment.description == "1970-01-01T00:00:01.250Z")
    }
}
