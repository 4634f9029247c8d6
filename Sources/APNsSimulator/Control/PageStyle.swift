/// The page's style, and the script that refreshes it.
enum PageStyle {
  static let css = """
    :root{color-scheme:light dark;--back:#eceef3;--card:#fff;--text:#14161a;--soft:#626975;--line:#d5d9e1;--bad:#c8102e;--ok:#17803d}
    @media(prefers-color-scheme:dark){:root{--back:#101216;--card:#1d2026;--text:#eceef2;--soft:#9aa2af;--line:#343944;
    --bad:#ff6b7d;--ok:#5bd183}}
    *{box-sizing:border-box}
    body{margin:0 auto;max-width:70rem;padding:1rem;font:15px/1.4 system-ui,sans-serif;background:var(--back);color:var(--text)}
    h1{font-size:1.35rem;margin:.2rem 0 .8rem}h1 small{font-weight:400;color:var(--soft)}
    h2{font-size:.85rem;margin:1.2rem 0 .3rem;color:var(--soft)}h2:first-child{margin-top:0}
    p{margin:0}small,time,summary{color:var(--soft)}a{color:inherit}
    dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.5rem;margin:0 0 1rem}
    dl div{background:var(--card);border-radius:12px;padding:.5rem .8rem}
    dt{font-size:.8rem;color:var(--soft)}dd{margin:0;font-size:1.3rem;font-variant-numeric:tabular-nums}dd small{font-size:.8rem}
    .bad,.bad dd{color:var(--bad)}.ok{color:var(--ok)}
    main{display:grid;grid-template-columns:minmax(0,1fr) 19rem;gap:1.2rem;align-items:start}
    aside{background:var(--card);border-radius:16px;padding:.9rem 1rem;min-width:0}
    @media(max-width:50rem){main{grid-template-columns:minmax(0,1fr)}aside{order:-1}}
    table{border-collapse:collapse;width:100%}td{padding:.15rem 0;vertical-align:top;overflow-wrap:anywhere}
    td:last-child{text-align:right;padding-left:.8rem;font-variant-numeric:tabular-nums}
    article{display:flex;gap:.8rem;background:var(--card);border:1px solid transparent;border-radius:18px;padding:.75rem .9rem;
    margin:0 0 .6rem;box-shadow:0 1px 3px #0002}
    article>div{flex:1;min-width:0}article table,article tbody{display:block}
    article tr{display:flex;justify-content:space-between}article td{min-width:0}article td:first-child{flex:none;max-width:50%}
    .silent{background:none;border:1px dashed var(--soft);box-shadow:none}
    .activity{background:#0b0c0f;color:#f4f5f7;--soft:#a7afbc;--line:#343944;border-color:#2b2f38}
    .call{border-color:var(--ok)}
    .icon{position:relative;flex:none;width:2.5rem;height:2.5rem;border-radius:10px;display:grid;place-items:center;
    font-weight:700;color:#fff;background:hsl(var(--hue) 45% 42%)}
    .silent .icon{opacity:.55}
    .badge{position:absolute;top:-.4rem;right:-.4rem;min-width:1.25rem;padding:0 .3rem;border-radius:1rem;text-align:center;
    font-size:.75rem;line-height:1.25rem;background:#e5233c;color:#fff}
    .top{display:flex;gap:.8rem;justify-content:space-between;font-size:.8rem;color:var(--soft)}
    .top b{font-weight:500;overflow-wrap:anywhere}time{white-space:nowrap}
    .title{font-weight:650}.subtitle{font-weight:500}.kind{font-weight:500;color:var(--soft)}.call .kind{color:var(--ok)}
    .title,.subtitle,.text{white-space:pre-wrap;overflow-wrap:anywhere}
    .chips{display:flex;flex-wrap:wrap;gap:.3rem;margin:.35rem 0 .15rem}
    .chips span{font-size:.72rem;color:var(--soft);border:1px solid var(--line);border-radius:1rem;padding:0 .5rem;
    overflow-wrap:anywhere}
    details{font-size:.78rem;color:var(--soft)}summary{cursor:pointer;overflow-wrap:anywhere}
    pre{margin:.4rem 0 0;white-space:pre-wrap;overflow-wrap:anywhere}code{overflow-wrap:anywhere}
    .none{color:var(--soft)}section>.none{padding:2rem 1rem;text-align:center;border:1px dashed var(--line);border-radius:18px}
    .gone{display:none;color:var(--bad);margin-bottom:.8rem}.is-gone .gone{display:block}
    """

  /// Fetches the page again every two seconds and replaces its body.
  static let script = """
    const renew=async()=>{try{if(!document.querySelector('details[open]')&&!String(getSelection())){
    const text=await(await fetch('/')).text();
    const body=new DOMParser().parseFromString(text,'text/html').body;
    document.body.replaceChildren(...body.childNodes)}document.body.classList.remove('is-gone')}
    catch{document.body.classList.add('is-gone')}setTimeout(renew,2000)};setTimeout(renew,2000)
    """
}
