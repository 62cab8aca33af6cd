/// What a run of a function has made so far.
package struct CallProgress: Hashable, Sendable {
    /// How often something was made: events of the upstream with output, or parts of a function.
    package private(set) var parts = 0
    /// What was made.
    package private(set) var output = OutputMeasure()
    /// What the upstream has reported so far to have used, if it did.
    package private(set) var usage: Usage?
    /// The output at the time of that report, without what was made later.
    private(set) var reportedOutput = OutputMeasure()

    /// Nothing.
    package init() {}

    /// Records a part with so many bytes of the upstream's words.
    package mutating func add(bytes: Int) {
        guard bytes > 0 else { return }
        parts += 1
        output.add(bytes: bytes)
    }

    /// Records what the upstream has made so far, all in all.
    package mutating func make(_ output: OutputMeasure) {
        guard output != self.output else { return }
        parts += 1
        self.output = output
    }

    /// Records that the upstream has answered, even if nothing of the answer can be measured.
    package mutating func answer() { parts = max(parts, 1) }

    /// Records what the upstream reports to have used for what was made so far.
    ///
    /// Usage is a running sum, so of several reports the largest counts.
    package mutating func report(_ usage: Usage) {
        self.usage = self.usage?.merged(with: usage) ?? usage
        reportedOutput = output
    }
}
