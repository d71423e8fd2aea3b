function t(s){let e=r=>{let n=!(r!==""&&Number.isFinite(Number(r)))&&/^[=+\-@\t\r]/.test(r)?`'${r}`:r;return/[",\r\n]/.test(n)?`"${n.replaceAll('"','""')}"`:n};return s.map(r=>r.map(e).join(",")).join(`\r
`)+`\r
`}export{t as a};
