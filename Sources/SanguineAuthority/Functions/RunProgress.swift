/// The progress of a function's run.
package struct RunProgress: Hashable, Sendable {
    /// The number of outputs: upstream events with output, or parts of a function.
    package private(set) var parts = 0
    /// The output so far.
    package private(set) var output = OutputMeasure()
    /// The usage that the upstream has reported so far, if any.
    package private(set) var usage: Usage?
    /// The output at the time of that report.
    private(set) var reportedOutput = OutputMeasure()

    /// Creates an empty progress.
    package init() {}

    /// Records a part with this number of bytes of upstream output.
    package mutating func add(bytes: Int) {
        guard bytes > 0 else { return }
        parts += 1
        output.add(bytes: bytes)
    }

    /// Records the total output of the upstream so far.
    package mutating func make(_ output: OutputMeasure) {
        guard output != self.output else { return }
        parts += 1
        self.output = output
    }

    /// Records that the upstream has answered, even if its output cannot be measured.
    package mutating func answer() { parts = max(parts, 1) }

    /// Records the usage that the upstream reports for the output so far.
    ///
    /// Usage is a running sum, so the largest of several reports counts.
    package mutating func report(_ usage: Usage) {
        self.usage = self.usage?.merged(with: usage) ?? usage
        reportedOutput = output
    }
}
