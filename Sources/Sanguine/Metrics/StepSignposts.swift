#if canImport(os)
import os
#endif

/// The steps as signposts, for Instruments; elsewhere than on Apple's platforms there are none.
enum StepSignposts {
    #if canImport(os)
    private static let signposter = OSSignposter(subsystem: "sanguine.client", category: "Steps")

    /// Whether a tool records signposts at this moment.
    static var areEnabled: Bool { signposter.isEnabled }
    #else
    static var areEnabled: Bool { false }
    #endif

    /// Marks a step.
    static func emit(_ step: String, kind: String, name: String, key: String) {
        #if canImport(os)
        guard signposter.isEnabled else { return }
        signposter.emitEvent(
            "Step",
            "\(step, privacy: .public) \(kind, privacy: .public) \(name, privacy: .public) \(key)"
        )
        #endif
    }
}
