import NIOCore
import TestSupport

extension TimeAmount {
    /// A timeout of a request in seconds, which `SANGUINE_TEST_PATIENCE` multiplies.
    static func patient(_ seconds: Int) -> TimeAmount {
        TimeAmount(Duration.seconds(seconds).withPatience)
    }
}
