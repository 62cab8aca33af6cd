/// WebM (RFC 9559, RFC 8794): nested elements.
enum WebMFile {
    /// Returns the video with each element that playback does not need replaced by a void element,
    /// or `nil` if an element does not fit into its parent.
    ///
    /// All offsets stay the same, so the positions that the file names stay valid. Bytes after the
    /// video are cut off.
    static func clean(_ file: [UInt8]) -> [UInt8]? {
        var bytes = file
        guard let header = EBMLElement(in: file, at: 0, end: file.count),
            cleanElements(of: header, .header, in: &bytes) != nil,
            let segment = EBMLElement(in: file, at: header.content.upperBound, end: file.count),
            segment.name == EBMLElement.segment,
            let end = cleanElements(of: segment, .segment, in: &bytes)
        else { return nil }
        bytes.removeSubrange(end...)
        return bytes
    }

    /// Overwrites the elements that the level does not keep.
    ///
    /// - Returns: The offset at which the elements end; `nil` if one does not fit. A segment of
    ///   unknown size, as in a live recording, ends before the first element that does not fit.
    private static func cleanElements(
        of master: EBMLElement,
        _ level: Level,
        in file: inout [UInt8]
    ) -> Int? {
        let end = master.content.upperBound
        var offset = master.content.lowerBound
        while offset < end {
            guard let element = EBMLElement(in: file, at: offset, end: end) else {
                return level == .segment && master.hasUnknownSize ? offset : nil
            }
            offset = element.content.upperBound
            if element.hasUnknownSize {
                // Only a cluster may have an unknown size. Its elements follow directly.
                guard level == .segment, element.name == EBMLElement.cluster else { return nil }
                offset = element.content.lowerBound
            } else if let inner = level.inner(element.name) {
                guard cleanElements(of: element, inner, in: &file) != nil else { return nil }
            } else if level.isText(element.name) {
                file.wipe(element.content)
            } else if !level.keeps(element.name) {
                file.makeVoid(element)
            }
        }
        return offset
    }
}

extension WebMFile {
    /// A level of the file, with the elements that a player needs there.
    private enum Level {
        case header, segment, info, tracks, track, cluster, group, seekHead, seek, cues, cue
        case position
        /// Keeps everything except padding and checksums.
        case other

        /// The level of an element whose children are cleaned; `nil` for other elements.
        func inner(_ name: Int) -> Level? {
            switch (self, name) {
            case (.segment, 0x114D_9B74): .seekHead
            case (.segment, 0x1549_A966): .info
            case (.segment, 0x1654_AE6B): .tracks
            case (.segment, 0x1C53_BB6B): .cues
            case (.segment, EBMLElement.cluster): .cluster
            case (.segment, 0xA0), (.cluster, 0xA0): .group
            case (.tracks, 0xAE): .track
            case (.track, 0xE0), (.track, 0xE1), (.track, 0x6D80): .other
            case (.group, 0x75A1): .other
            case (.seekHead, 0x4DBB): .seek
            case (.cues, 0xBB): .cue
            case (.cue, 0xB7): .position
            default: nil
            }
        }

        /// Whether the element is a required text that may be empty: the name of a writing program.
        func isText(_ name: Int) -> Bool { self == .info && (name == 0x4D80 || name == 0x5741) }

        func keeps(_ name: Int) -> Bool {
            switch self {
            case .header: Self.inHeader.contains(name)
            case .segment, .cluster: Self.inCluster.contains(name)
            case .info: name == 0x2A_D7B1 || name == 0x4489
            case .track: Self.inTrack.contains(name)
            case .group: Self.inGroup.contains(name)
            case .seek: name == 0x53AB || name == 0x53AC
            case .cue: name == 0xB3
            case .position: Self.inPosition.contains(name)
            case .tracks, .seekHead, .cues: false
            case .other: name != 0xEC && name != 0xBF
            }
        }

        private static let inHeader: Set = [0x4286, 0x42F7, 0x42F2, 0x42F3, 0x4282, 0x4287, 0x4285]
        private static let inCluster: Set = [0xE7, 0xA3, 0xA7, 0xAB]
        private static let inTrack: Set = [
            0xD7, 0x73C5, 0x83, 0xB9, 0x88, 0x55AA, 0x9C, 0x6DE7, 0x23_E383, 0x23_314F, 0x22_B59C,
            0x22_B59D, 0x86, 0x63A2, 0x55EE, 0xAA, 0x56AA, 0x56BB,
        ]
        private static let inGroup: Set = [0xA1, 0x9B, 0xFA, 0xFB, 0xFD, 0x75A2]
        private static let inPosition: Set = [0xF7, 0xF1, 0xF0, 0xB2, 0x5378, 0xEA]
    }
}

/// An element of a Matroska file.
private struct EBMLElement {
    static let segment = 0x1853_8067
    static let cluster = 0x1F43_B675

    let name: Int
    /// The offset of the element.
    let start: Int
    /// The range of the content; up to the end of the parent if the size is unknown.
    let content: Range<Int>
    let hasUnknownSize: Bool

    /// Reads the element at an offset; returns `nil` if it does not fit before the end.
    init?(in file: [UInt8], at start: Int, end: Int) {
        guard let first = file.big(start, 1) else { return nil }
        let width = EBMLHeader.length(first)
        guard width <= 4, let name = file.big(start, width),
            let sizeFirst = file.big(start + width, 1)
        else { return nil }
        let sizeWidth = EBMLHeader.length(sizeFirst)
        guard sizeWidth <= 8, start + width + sizeWidth <= end else { return nil }
        var size = sizeFirst & (1 << (8 - sizeWidth) - 1)
        if sizeWidth > 1 {
            guard let rest = file.big(start + width + 1, sizeWidth - 1) else { return nil }
            size = size << (8 * (sizeWidth - 1)) | rest
        }
        let from = start + width + sizeWidth
        hasUnknownSize = size == 1 << (7 * sizeWidth) - 1
        if hasUnknownSize { size = end - from }
        guard size <= end - from else { return nil }
        (self.name, self.start) = (name, start)
        content = from..<from + size
    }
}

extension [UInt8] {
    /// Replaces an element with a void element of the same length.
    fileprivate mutating func makeVoid(_ element: EBMLElement) {
        let range = element.start..<element.content.upperBound
        wipe(range)
        self[range.lowerBound] = 0xEC
        if range.count < 9 {
            self[range.lowerBound + 1] = UInt8(0x80 | range.count - 2)
        } else {
            let size = (1 << 56 | range.count - 9).big(8)
            replaceSubrange(range.lowerBound + 1..<range.lowerBound + 9, with: size)
        }
    }
}
